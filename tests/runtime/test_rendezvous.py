"""Workers meet, learn each other's addresses and that one has ended: several in one process, over loopback."""

import asyncio
import contextlib

import pytest

from bert_tf.errors import UserError
from bert_tf.runtime import cluster, rendezvous
from bert_tf.runtime.cluster import Place

pytestmark = pytest.mark.anyio


@pytest.fixture
def quick(monkeypatch):
    """Times for tests: a worker counts as dead after a fraction of a second."""
    for name, seconds in (("BEAT", 0.05), ("SILENCE", 0.5), ("RETRY", 0.05)):
        monkeypatch.setattr(rendezvous, name, seconds)


@contextlib.asynccontextmanager
async def job(count, timeout=5.0):
    """A coordinator and the workers that have met there, with ports 1, 2, ..."""
    coordinator_address = f"localhost:{cluster.free_ports(1)[0]}"
    places = [Place(number, count, coordinator_address) for number in range(count)]
    coordinator = rendezvous.Coordinator(places[0])
    members = [rendezvous.Membership(place) for place in places]
    joining = [asyncio.create_task(member.join(n + 1, timeout)) for n, member in reversed(list(enumerate(members)))]
    await asyncio.sleep(0)  # some come before the coordinator listens
    await coordinator.listen()
    addresses = await asyncio.gather(*joining)
    assert addresses == [[f"localhost:{number + 1}" for number in range(count)]] * count
    yield coordinator, members
    coordinator.server.close()


async def test_all_end_well(quick):
    async with job(3) as (coordinator, members):
        await asyncio.sleep(3 * rendezvous.SILENCE)  # signs of life go back and forth
        for member in members:
            assert not member.failure.done() and not coordinator.all_ended.is_set()
            await member.leave("")
        assert await coordinator.close() == ""


@pytest.mark.parametrize("end", ["was killed (SIGKILL)", None])
async def test_end_of_a_worker_is_told_to_all(quick, end):
    async with job(3) as (coordinator, members):
        if end:
            await members[1].leave(end)
        else:  # the process or its machine is gone
            for task in members[1]._tasks:
                task.cancel()
        told = await asyncio.wait_for(asyncio.gather(members[0].failure, members[2].failure), 5)
        assert told == [f"worker 1 of 3 (localhost:2) {end or rendezvous.ABANDONED}"] * 2
        assert await coordinator.close() == told[0]


async def test_worker_needs_the_token_of_its_job(quick):
    places = [Place(number, 2, f"localhost:{port}") for port in cluster.free_ports(1) for number in range(2)]
    coordinator = rendezvous.Coordinator(places[0], "secret")
    await coordinator.listen()
    members = [rendezvous.Membership(place, "secret") for place in places]
    first = asyncio.create_task(members[0].join(1, 5))
    for token in ("", "guess"):
        with pytest.raises(UserError, match="worker 0 has a different token, or none"):
            await rendezvous.Membership(places[1], token).join(2, 5)
    reader, writer = await asyncio.open_connection("localhost", cluster.split_address(places[0].coordinator)[1])
    writer.write(b'{"worker": 1, "workers": 2, "port": 3}\n')  # without a proof
    assert b"nonce" in await reader.readline() and b"different token" in await reader.readline()
    writer.close()
    assert await members[1].join(2, 5) == await first == ["localhost:1", "localhost:2"]
    for member in members:
        await member.leave("")
    assert await coordinator.close() == ""


async def test_end_of_the_coordinator_is_noticed(quick):
    async with job(2) as (coordinator, members):
        coordinator.writers[1].close()
        assert "worker 0 of 2 (localhost:" in await asyncio.wait_for(members[1].failure, 5)


async def test_workers_that_do_not_fit_are_refused(quick):
    place = Place(0, 2, f"localhost:{cluster.free_ports(1)[0]}")
    coordinator = rendezvous.Coordinator(place)
    await coordinator.listen()
    with pytest.raises(UserError, match="worker 0 expects 2 workers, and another worker 3"):
        await rendezvous.Membership(Place(1, 3, place.coordinator)).join(1, 5)
    first = asyncio.create_task(rendezvous.Membership(place).join(1, 1.0))
    await asyncio.sleep(0.2)
    with pytest.raises(UserError, match="there are two workers with the number 0"):
        await rendezvous.Membership(place).join(1, 5)
    with pytest.raises(UserError, match="Port .* cannot be used"):
        await rendezvous.Coordinator(place).listen()
    with pytest.raises(UserError, match="worker 0 has a different token, or none"):
        await rendezvous.Membership(Place(1, 2, place.coordinator), "secret").join(1, 5)
    with pytest.raises(UserError, match="Not all of 2 workers have joined within 1 seconds"):
        await first
    coordinator.server.close()
    with pytest.raises(UserError, match="Worker 0 cannot be reached at localhost:"):
        await rendezvous.Membership(Place(1, 2, f"localhost:{cluster.free_ports(1)[0]}")).join(1, 0.1)
