"""Pre-training data as google-research/bert states it, token by token in plain Python; nothing of bert_tf is used.

Documents are lists of sentences, sentences lists of ids. `random` has uniform() in [0, 1),
below(n) in [0, n) and fair_binomial(n), the heads in n tosses.
"""

MASK64 = 2**64 - 1


def next_sentence_pairs(documents, random, max_seq_length, short_seq_prob):
    """-> list of (ids of A, ids of B, is random next); lengths before truncation decide, truncation comes last."""
    budget = max_seq_length - 3
    pairs = []
    for number, document in enumerate(documents):
        i = 0
        while i < len(document):
            target = budget
            if random.uniform() < short_seq_prob:
                target = 2 + random.below(budget - 1)
            chunk = []
            while i < len(document):
                chunk.append(document[i])
                i += 1
                if sum(map(len, chunk)) >= target:
                    break
            a_end = 1 if len(chunk) == 1 else 1 + random.below(len(chunk) - 1)
            a = [token for sentence in chunk[:a_end] for token in sentence]
            b = []
            is_random = len(chunk) == 1 or random.uniform() < 0.5
            if is_random:
                for _ in range(10):
                    other = random.below(len(documents))
                    if other != number:
                        break
                for sentence in documents[other][random.below(len(documents[other])) :]:
                    b += sentence
                    if len(b) >= target - len(a):
                        break
                i -= len(chunk) - a_end
            else:
                b = [token for sentence in chunk[a_end:] for token in sentence]
            pairs.append((a, b, is_random))
    return truncate(pairs, budget, random)


def truncate(pairs, budget, random):
    """Removes one token at a time from the longer segment (from B on a tie), each from a random end."""
    cuts = [num_to_remove(len(a), len(b), budget) for a, b, _ in pairs]
    fronts_a = [random.fair_binomial(cut) for cut, _ in cuts]
    fronts_b = [random.fair_binomial(cut) for _, cut in cuts]
    result = []
    for (a, b, is_random), (cut_a, cut_b), front_a, front_b in zip(pairs, cuts, fronts_a, fronts_b, strict=True):
        a = a[front_a : len(a) - (cut_a - front_a)]
        b = b[front_b : len(b) - (cut_b - front_b)]
        result.append((a, b, is_random))
    return result


def num_to_remove(a, b, budget):
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
    """Lists of positions of words -> of spans of words."""
    result, size = [], 0  # words in the last span
    for word in words:
        draw = (random_bits(seed, 3, word[0]) >> 11) / 2**53
        if draw < 0.2 or word[0] - 1 in special or size == most or not result:
            result, size = [*result, []], 0
        result[-1] += word
        size += 1
    return result


def mask_tokens(
    tokens, seed, *, special, mask_id, vocab_size, is_continuation, prob, limit, whole_word, max_span_words=1
):
    """One text without padding -> (tokens with masks, positions, labels)."""
    groups = []
    for position, token in enumerate(tokens):
        if token in special:
            continue
        if (whole_word or max_span_words > 1) and groups and is_continuation[token]:
            groups[-1].append(position)
        else:
            groups.append([position])
    if max_span_words > 1:
        groups = spans(
            groups, seed, max_span_words, {position for position, token in enumerate(tokens) if token in special}
        )
    order = sorted(range(len(groups)), key=lambda g: -(random_bits(seed, 0, g) >> 2))
    target = min(limit, max(1, round(len(tokens) * prob)))
    masked = []
    for g in order:
        if len(masked) >= target:
            break
        if len(masked) + len(groups[g]) <= target:
            masked += groups[g]
    result = list(tokens)
    for position in masked:
        kind = (random_bits(seed, 1, position) >> 11) / 2**53
        if kind < 0.8:
            result[position] = mask_id
        elif kind < 0.9:
            result[position] = ((random_bits(seed, 2, position) >> 32) * vocab_size) >> 32
    masked.sort()
    return result, masked, [tokens[position] for position in masked]
