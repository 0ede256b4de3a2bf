#!/usr/bin/env python3
"""Kernels of this folder against NumPy, element by element and exactly.

  tests/kernels/values.py --tpuc build/tpuc

Each function below computes what the .tk file of its name computes. Runs are on bundles, at -O2, -O0 and with whole blocks.
"""
import argparse, os, subprocess, sys, tempfile
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))

def bf16_bits(x):
    bits = np.asarray(x, np.float32).view(np.uint32)
    return (bits >> 16).astype(np.uint16)

def rows(r, dtype):
    """dtype: of the kernel, and NumPy's type that holds its bits."""
    def some(*shape):
        if dtype == 'f32':
            return r.standard_normal(shape).astype(np.float32)
        if dtype == 'bf16':
            return bf16_bits(r.integers(-99, 100, shape).astype(np.float32))
        if dtype == 'pred':
            return r.integers(0, 2, shape).astype(bool)
        low, high, held = {'s8': (-128, 128, np.int8), 'u16': (0, 65536, np.uint16), 's4': (-8, 8, np.int8), 'u4': (0, 16, np.uint8)}[dtype]
        return r.integers(low, high, shape).astype(held)
    x, y, v = some(64, 256), some(3, 40, 384), some(900)
    t = r.integers(-1000, 1000, 24).astype(np.int32)
    m = r.integers(0, 2, (64, 256)).astype(bool)
    which = np.abs(t) % 40
    put = x.copy()
    for i in range(24):
        put[which[i] + 20] = y[1, i, 100:356]
    one = x.copy()
    for i in range(24):
        row = abs(t[i]) % 64
        one[row] = x[i]
        one[i, row] = x[row, i * 2]
    ends = x.copy()
    ends[3:19] = x[5:21]
    ends[33:34, 64:192] = x[7:8, 3:131]
    ends[40:63, 130:140] = x[11:34, 100:110]
    flat = v.copy()
    flat[100:356], flat[517:530], flat[700:900], flat[5] = v[57:313], v[3:16], v[1:201], v[899]
    masked = np.where(m, x, y[0, 39, 0])
    masked[0:64:2] = x[0:32]
    masked[5:20, 0:100] = np.where(m[3:18, 7:107], x[0:15, 100:200], masked[5:20, 0:100])
    masked[3:4] = np.where(m[1:2], x[9:10], masked[3:4])
    return [x, y, v, t, m], [x[which], y[:, which], x[:, which], put, one, ends, flat, masked]

def scalars(r):
    x = r.integers(-20, 20, (8, 128)).astype(np.int32)
    y = r.standard_normal((40, 256)).astype(np.float32)
    s = x[3] * 2
    z = np.ones((16, 256), np.int32)
    z[0:8, 0:128] = x
    w = z[4:8].copy()
    w[1, 200] = s[7]
    twice, first = y * 2, int(s[0])
    start = min(max(first, 0), 30)
    a, b = abs(first) % 4 * 8, abs(int(s[1])) % 2 * 128
    word = (first << 2) + (int(s[2]) >> 1) + (int(s[3]) & 7) + abs(int(s[4]))
    return [x, y], [x + s[5], w, np.arange(300, dtype=np.int32) ** 2, twice[start:start + 10], twice[a:a + 8, b:b + 128],
                    np.full((8, 128), word, np.int32)]

def offsets(r):
    a = r.standard_normal((64, 256)).astype(np.float32)
    b = r.integers(-99, 100, (16, 512)).astype(np.float32)
    c, d = (r.standard_normal(s).astype(np.float32) for s in ((64, 128), (80, 128)))
    edge = np.zeros((1, 256), np.float32)
    near = np.concatenate([edge, a[:-1]]) + np.concatenate([a[1:], edge])
    left = np.concatenate([np.zeros((16, 1), np.float32), b[:, :-1]], axis=1)
    turned = c.reshape(4, 16, 128)[::-1].reshape(64, 128)
    return [a, bf16_bits(b), c, d], [near, bf16_bits(left), turned, d[8:72] * 2]

def packs(r):
    x = r.integers(-2**31, 2**31, (16, 128)).astype(np.int32)
    w = r.integers(0, 2**32, (16, 128)).astype(np.uint32)
    def packed(bits):
        word = np.zeros((16, 128), np.uint32)
        for i in range(32 // bits):
            word |= ((x.astype(np.int64) + i) & (2**bits - 1)).astype(np.uint32) << np.uint32(bits * i)
        return word
    return [x, w], [packed(16), packed(8), packed(4), (w >> 24).astype(np.int8).astype(np.int32), (w & 255).astype(np.int32),
                    (w >> 16).astype(np.int16).astype(np.int32)]

def updates(r):
    a, c = (r.standard_normal((70, 128)).astype(np.float32) for _ in range(2))
    b = bf16_bits(r.integers(-99, 100, (70, 256)).astype(np.float32))
    d = r.integers(-99, 100, (24, 128)).astype(np.int32)
    rows, o = b.copy(), d.copy()
    rows[35:37] = bf16_bits(np.float32(7))
    o[5] += 3
    return [a, b, c, d], [a + c, rows, o]

def lanes(r):
    t = r.integers(-1000, 1000, 4).astype(np.int32)
    v = r.integers(-99, 100, 500).astype(np.int32)
    x = r.standard_normal((16, 600)).astype(np.float32)
    y = bf16_bits(r.integers(-99, 100, 300).astype(np.float32))
    a, b, c, d, e = abs(t[0]) % 300, abs(t[1]) % 300, abs(t[2]) % 11, abs(t[3]) % 400, abs(t[0]) % 200
    inside, row, first = x.copy(), y.copy(), min(abs(int(t[0])) % 20, 7)
    inside[first:first + 9, 128:256] = x[0:9, 0:128] * 2
    row[70:134] = y[10:74]
    return [t, v, x, y], [v[a:a + 200], x[:, b:b + 300], x[c:c + 5, d:d + 130] * 2, y[e:e + 64], inside, row]

def nibbles(r):
    x, q = r.integers(-8, 8, (70, 300)).astype(np.int8), r.integers(-8, 8, (3, 64, 256)).astype(np.int8)
    y = r.integers(0, 16, (70, 300)).astype(np.uint8)
    w = r.integers(-8, 8, (256, 128)).astype(np.int8)
    f, t = r.integers(-200, 200, (70, 300)).astype(np.float32) / 10, r.integers(-2**31, 2**31, (70, 300)).astype(np.int32)
    g = r.integers(-99, 100, (16, 256)).astype(np.float32)
    v = r.integers(-8, 8, 5000).astype(np.int8)
    def wrapped(a, signed=True):
        a = a.astype(np.int64) & 15
        return (a - 16 * (a > 7)).astype(np.int8) if signed else a.astype(np.uint8)
    def saturated(a, low, high, held):
        return np.clip(np.trunc(a), low, high).astype(held)
    sums, chosen = wrapped(x.astype(int) + wrapped(t).astype(int) * 3), np.where(x > 2, x, wrapped(-x.astype(int)))
    copied = np.concatenate([q[1, 8:40], q[2, 0:32]])
    return ([x, y, f, t, q, w, v, bf16_bits(g)],
            [x, y.astype(np.int32), bf16_bits(x / 2), saturated(f, -8, 7, np.int8), saturated(f, 0, 15, np.uint8), wrapped(t, False),
             sums, chosen, x + y.astype(np.int8), x.sum(axis=1, dtype=np.int32), copied, copied.astype(np.int32) @ w.astype(np.int32),
             g @ w.astype(np.float32), q.reshape(3, 8, 8, 256)[:, ::-1].reshape(3, 64, 256), wrapped(v.astype(int) + 1), v[1001:3001]])

def layouts(r):
    x = r.integers(-2000, 2000, (64, 128)).astype(np.float32)
    y, z = r.integers(-128, 128, (64, 300)).astype(np.int8), r.integers(0, 16, (64, 128)).astype(np.uint8)
    w = r.integers(-3, 4, (128, 128)).astype(np.float16)
    bits = x.view(np.uint32)
    near = ((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000).view(np.float32)  # in one pass f32 operands are bf16
    product = near @ w.astype(np.float32)
    return [x, y, z, w], [x, y, z.astype(np.int32), product, product]

def reread(r):
    x = r.integers(-99, 100, (16, 256)).astype(np.float32)
    return [bf16_bits(x)], [bf16_bits(x * 2)]

CASES = [('rows', f'dtype={d}', lambda r, d=d: rows(r, d)) for d in ('f32', 'bf16', 's8', 'u16', 'pred', 's4', 'u4')] + [
    ('scalars', '', scalars), ('offsets', '', offsets), ('packs', '', packs), ('updates', '', updates), ('lanes', '', lanes), ('nibbles', '', nibbles), ('layouts', '', layouts), ('reread', '', reread)]

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--tpuc', required=True)
    p.add_argument('--only', default='')
    args = p.parse_args()
    tpuc, passed, failed = os.path.abspath(args.tpuc), 0, 0
    with tempfile.TemporaryDirectory() as tmp:
        given, got = os.path.join(tmp, 'in.npz'), os.path.join(tmp, 'out.npz')
        for name, settings, function in CASES:
            if args.only not in name:
                continue
            inputs, want = function(np.random.default_rng(7))
            np.savez(given, **{f'in{i}': x for i, x in enumerate(inputs)})
            for way in ([], ['-O0'], ['--strips=whole']):
                r = subprocess.run([tpuc, 'run', os.path.join(HERE, name + '.tk'), '--input', given, '--output', got, *way,
                                    *(['--set', settings] if settings else [])], capture_output=True, text=True, stdin=subprocess.DEVNULL)
                bad = r.stderr[:500] if r.returncode else ''
                if not bad:
                    z = np.load(got)
                    for i, w in enumerate(want):
                        g = z[f'out{i}']
                        g = g.view(w.dtype) if g.dtype.itemsize == w.dtype.itemsize else g
                        if g.shape != w.shape or not np.array_equal(g, w):
                            bad = f'out{i}: {np.count_nonzero(g != w) if g.shape == w.shape else g.shape} of {w.size} elements differ'
                            break
                passed, failed = passed + (not bad), failed + bool(bad)
                if bad:
                    print(f'FAIL {name} {settings} {way}: {bad}')
    print(f'{passed} passed, {failed} failed')
    return 1 if failed or not passed else 0

if __name__ == '__main__':
    sys.exit(main())
