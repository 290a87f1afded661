import datetime, hashlib, json, math, random, re, struct


def dates(put):
    day = datetime.datetime(1970, 1, 1)
    for n in range(0, 400_000, 331):
        put((day + datetime.timedelta(hours=n, seconds=n % 61, microseconds=n * 7)).strftime("%Y-%m-%dT%H:%M:%S.%f %j %U %w"))


def integers(put):
    a, b = 1, 1
    for n in range(1, 3_000):
        a, b = a * 31 + n, (b * 1_000_003 + a) % ((1 << 521) - 1)
        if n % 50 == 0:
            a %= (1 << 400) - 593
        put(f"{b // (n * 10 + 1)} {b % 10} {n // 10} {n % 10} {-n // 7} {-n % 7} {b >> n % 64}")


def floats(put):
    x = 0.5
    for n in range(1, 4_000):
        x = math.fmod(x * 3.999 + 1 / n, 1.0) if n % 3 else math.sqrt(abs(x - 0.25))
        put(f"{x!r} {x:.3e} {round(x * n, 2)} {int(x * 1e9)} {struct.pack('<d', x).hex()} {math.floor(x * 100) // 10}")


def texts(put):
    chance = random.Random(20240611)
    for n in range(400):
        words = ["".join(chance.choice("abcdefgh0123456789 ,;") for _ in range(chance.randrange(40))) for _ in range(4)]
        put(json.dumps({"n": n, "words": words, "half": n / 2}))
        put(str([re.sub(r"(\d+)([a-h]?)", r"<\2\1>", word) for word in sorted(words)]))


KNOWN = {
    "dates": "2258d1b8a125fea432e19a0eeb589264de0248765c5746d1f2798676429f1086",
    "integers": "fcea95950b8d7a156e255e85082b6c902ca0ab0f858eefff66541040d86f9f29",
    "floats": "1662ea4f1f3e9b5a94848521cd5d7493dd88dabb7a3193a796d1999eec1158ad",
    "texts": "148021cf3231897aa61f45cdf10df3e9a9ebc1ff06517ee5641b37d79152fa78",
}


def digest(group):
    sums = hashlib.sha256()
    group(lambda text: sums.update(text.encode() + b"\n"))
    return sums.hexdigest()


for group in (dates, integers, floats, texts):
    got = digest(group)
    if got != KNOWN.get(group.__name__):
        raise ArithmeticError(f"this processor computes {group.__name__} wrongly, got {got}: wazero's compiler has a known fault on arm64, issue 2516; use another backend here")
