"""Pre-training data as google-research/bert states it, token by token in plain Python; nothing of bert_tf is used.

Documents are lists of sentences, sentences lists of ids. Chance comes from outside: `draws` has uniform() in [0, 1),
below(n) in [0, n) and heads(n), the heads in n tosses.
"""

MASK64 = 2**64 - 1


def next_sentence_pairs(documents, draws, max_seq_length, short_seq_prob):
    """-> list of (ids of A, ids of B, is random next); untrimmed lengths decide, trimming comes last."""
    budget = max_seq_length - 3
    found = []
    for number, document in enumerate(documents):
        i = 0
        while i < len(document):
            target = budget
            if draws.uniform() < short_seq_prob:
                target = 2 + draws.below(budget - 1)
            chunk = []
            while i < len(document):
                chunk.append(document[i])
                i += 1
                if sum(map(len, chunk)) >= target:
                    break
            a_end = 1 if len(chunk) == 1 else 1 + draws.below(len(chunk) - 1)
            a = [token for sentence in chunk[:a_end] for token in sentence]
            b = []
            is_random = len(chunk) == 1 or draws.uniform() < 0.5
            if is_random:
                for _ in range(10):
                    other = draws.below(len(documents))
                    if other != number:
                        break
                for sentence in documents[other][draws.below(len(documents[other])) :]:
                    b += sentence
                    if len(b) >= target - len(a):
                        break
                i -= len(chunk) - a_end
            else:
                b = [token for sentence in chunk[a_end:] for token in sentence]
            found.append((a, b, is_random))
    return trimmed(found, budget, draws)


def trimmed(pairs, budget, draws):
    """Takes one token at a time from the longer segment (from B on a tie), each from a random end."""
    cuts = [how_many_to_cut(len(a), len(b), budget) for a, b, _ in pairs]
    fronts_a = [draws.heads(cut) for cut, _ in cuts]
    fronts_b = [draws.heads(cut) for _, cut in cuts]
    result = []
    for (a, b, is_random), (cut_a, cut_b), front_a, front_b in zip(pairs, cuts, fronts_a, fronts_b, strict=True):
        a = a[front_a : len(a) - (cut_a - front_a)]
        b = b[front_b : len(b) - (cut_b - front_b)]
        result.append((a, b, is_random))
    return result


def how_many_to_cut(a, b, budget):
    cut_a = cut_b = 0
    while a - cut_a + b - cut_b > budget:
        if a - cut_a > b - cut_b:
            cut_a += 1
        else:
            cut_b += 1
    return cut_a, cut_b


def splitmix64(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK64
    return x ^ (x >> 31)


def random_bits(seed, stream, counter):
    golden = 0x9E3779B97F4A7C15
    key = splitmix64((seed + golden) & MASK64)
    return splitmix64((key + ((stream << 32) + 1 + counter) * golden) & MASK64)


def spans(words, seed, most, special):
    """Lists of places of words -> of spans of words."""
    found, size = [], 0  # words in the last span
    for word in words:
        draw = (random_bits(seed, 3, word[0]) >> 11) / 2**53
        if draw < 0.2 or word[0] - 1 in special or size == most or not found:
            found, size = [*found, []], 0
        found[-1] += word
        size += 1
    return found


def mask_tokens(
    tokens, seed, *, special, mask_id, vocab_size, is_continuation, prob, limit, whole_word, max_span_words=1
):
    """One text without padding -> (tokens shown, positions, labels)."""
    groups = []
    for place, token in enumerate(tokens):
        if token in special:
            continue
        if (whole_word or max_span_words > 1) and groups and is_continuation[token]:
            groups[-1].append(place)
        else:
            groups.append([place])
    if max_span_words > 1:
        groups = spans(groups, seed, max_span_words, {place for place, token in enumerate(tokens) if token in special})
    order = sorted(range(len(groups)), key=lambda g: -(random_bits(seed, 0, g) >> 2))
    wanted = min(limit, max(1, round(len(tokens) * prob)))
    hidden = []
    for g in order:
        if len(hidden) >= wanted:
            break
        if len(hidden) + len(groups[g]) <= wanted:
            hidden += groups[g]
    shown = list(tokens)
    for place in hidden:
        kind = (random_bits(seed, 1, place) >> 11) / 2**53
        if kind < 0.8:
            shown[place] = mask_id
        elif kind < 0.9:
            shown[place] = ((random_bits(seed, 2, place) >> 32) * vocab_size) >> 32
    hidden.sort()
    return shown, hidden, [tokens[place] for place in hidden]
