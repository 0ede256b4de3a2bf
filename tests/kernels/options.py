#!/usr/bin/env python3
"""Options of the attention kernels that no oracle program has, against NumPy in f64: bias, scale, head sizes, masks by arrays
in files, a known maximum.

  tests/kernels/options.py --tpuc build/tpuc

Inputs are small random numbers (seed 1). Operands of dots are rounded to bf16 first, as the MXU does; limits are those of an online softmax.
"""
import argparse, os, subprocess, sys, tempfile
import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

def bf16(x):
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000).astype(np.uint32).view(np.float32).astype(np.float64)

def attention(q, k, v, allowed, bias=0.0, scale=1.0, softcap=0, known=None):
    k, v = (np.repeat(x, q.shape[0] // x.shape[0], axis=0) for x in (k, v))
    s = (np.einsum('hqd,hkd->hqk', bf16(q), bf16(k)) + bias) * scale
    s = softcap * np.tanh(s / softcap) if softcap else s
    s = np.where(allowed, s, -np.inf)
    top = s.max(-1, keepdims=True) if known is None else np.full(s.shape[:2] + (1,), float(known))
    p = np.exp(s - top)
    l = p.sum(-1, keepdims=True)
    return np.einsum('hqk,hkd->hqd', bf16(p), bf16(v)) / l, (top + np.log(l))[..., 0], top[..., 0]

def run(tpuc, kernel, inputs, settings, tmp):
    given, got = os.path.join(tmp, 'in.npz'), os.path.join(tmp, 'out.npz')
    np.savez(given, **{f'in{i}': x for i, x in enumerate(inputs)})
    r = subprocess.run([tpuc, 'run', os.path.join(ROOT, 'examples/kernels', kernel), '--input', given, '--output', got, '--set', settings],
                       capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if r.returncode:
        raise RuntimeError(r.stderr[:600])
    z = np.load(got)
    return [z[f'out{i}'] for i in range(len(z.files))]

def differs(got, want):
    for i, (g, w) in enumerate(zip(got, want)):
        scale, d = np.abs(w).max(), np.abs(g - w)
        rms = float(np.sqrt(np.mean((d / scale) ** 2)))
        if not np.isfinite(g).all() or d.max() > 8e-3 * scale or rms > 4e-4:
            return f'out{i}: max error {d.max() / scale:.2e}, root mean square {rms:.2e} of scale'
    return None

def cases(tmp):
    r = np.random.default_rng(1)
    def qkv(h, hkv, sq, skv, d, dv):
        return [r.uniform(-1, 1, s).astype(np.float32) for s in ((h, sq, d), (hkv, skv, d), (hkv, skv, dv))]
    rows, cols = np.arange(256)[:, None], np.arange(256)[None, :]
    a = qkv(2, 1, 256, 256, 128, 128)
    size = 'H=2,Hkv=1,Sq=256,Skv=256,D=128,Dv=128,bq=128,bkv=128,dtype=f32'
    bias = r.uniform(-2, 2, (2, 256, 256)).astype(np.float32)
    segment = np.sort(r.integers(0, 4, 256)).astype(np.int32)
    same = segment[:, None] == segment[None, :]
    yield 'flash_attention.tk', a + [bias], size + ',biased=1,scale=0.125', attention(*a, True, bias, 0.125)
    yield 'flash_attention.tk', a + [bias, segment, segment], size + ',biased=1,segments=1,causal=1', attention(*a, same & (rows >= cols), bias)
    yield 'flash_attention.tk', a + [segment, segment], size + ',segments=1,bkv=256,bc=128', attention(*a, same)
    b = qkv(2, 2, 200, 160, 80, 48)
    yield 'flash_attention.tk', b, 'H=2,Hkv=2,Sq=200,Skv=160,D=80,Dv=48,bq=128,bkv=128,dtype=f32', attention(*b, True)
    yield 'splash_attention.tk', b, 'H=2,Hkv=2,Sq=200,Skv=160,D=80,Dv=48,bq=128,bkv=128,dtype=f32,right=-1', attention(*b, True)
    coarse = (r.uniform(size=(8, 8)) < 0.4).astype(np.int8) | np.eye(8, dtype=np.int8)
    fine = (r.uniform(size=(256, 256)) < 0.3).astype(np.int8) | np.eye(256, dtype=np.int8)
    np.save(os.path.join(tmp, 'coarse.npy'), coarse)
    np.save(os.path.join(tmp, 'fine.npy'), fine)
    wide = np.kron(coarse, np.ones((32, 32))) > 0
    more = f'{size},table=1,right=-1'
    yield 'splash_attention.tk', a, f'{more},grain=32,allowed={tmp}/coarse.npy', attention(*a, wide)
    yield 'splash_attention.tk', a, f'{more},grain=32,allowed={tmp}/coarse.npy,bkv=256,bc=128,heads=2', attention(*a, wide)
    yield 'splash_attention.tk', a, f'{size},table=1,grain=1,allowed={tmp}/fine.npy,scale=0.25,base2=1', attention(*a, (fine > 0) & (rows >= cols), 0, 0.25)
    yield 'splash_attention.tk', a, size + ',fixed_max=1,max_logit=20', attention(*a, rows >= cols, known=20)[:2]
    yield 'splash_attention.tk', a, size + ',fixed_max=1,max_logit=8,base2=1,bkv=96,bc=96,heads=2', attention(*a, rows >= cols, known=8)[:2]
    # Blocks that are no multiples of 128 rows or keys.
    seg = a + [segment, segment]
    yield 'splash_attention.tk', a, size + ',bq=64', attention(*a, rows >= cols)
    yield 'splash_attention.tk', seg, size + ',segments=1,bq=96,bkv=64,right=-1', attention(*a, same)
    yield 'splash_attention.tk', seg, size + ',segments=1,bkv=256,bc=64,heads=2', attention(*a, same & (rows >= cols))
    yield 'splash_attention.tk', seg, f'{size},segments=1,table=1,grain=1,allowed={tmp}/fine.npy,bq=64,bkv=192,bc=96', attention(
        *a, same & (fine > 0) & (rows >= cols) | (rows == cols))
    yield 'splash_attention.tk', a, size + ',scale=0.5,softcap=5,base2=1,left=40', attention(*a, (rows >= cols) & (rows - cols <= 40), 0, 0.5, 5)

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--tpuc', required=True)
    tpuc, passed, failed = os.path.abspath(p.parse_args().tpuc), 0, 0
    with tempfile.TemporaryDirectory() as tmp:
        for kernel, inputs, settings, want in cases(tmp):
            try:
                e = differs(run(tpuc, kernel, inputs, settings, tmp), want)
            except RuntimeError as x:
                e = str(x)
            passed, failed = passed + (not e), failed + bool(e)
            if e:
                print(f'FAIL {kernel} {settings}: {e}')
    print(f'{passed} passed, {failed} failed')
    return 1 if failed or not passed else 0

if __name__ == '__main__':
    sys.exit(main())
