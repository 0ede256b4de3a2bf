#!/usr/bin/env python3
"""Compares tpuc with XLA's results on the programs of this folder (INDEX.tsv).

  tests/oracle/run.py --tpuc build/tpuc --mode reference|chip|interpret [--only softmax] [--chip v5e]

Each <program>.npz holds in<i>, what XLA gives (out<i>) and, where it differs, what it gives with the operands of f32 dots rounded to bf16
(chip<i>). Column `bundles` says no where bundles cannot do the program yet. Limits, with scale = largest finite |expected|: the
evaluator 4e-6 of scale; bundles and chip numbers 4e-3 of scale and a root mean square of 1e-4 with dots (times dots/4 from four on),
2e-5 without; one step more for narrow floats; unary/ and binary/ per element.
"""
import argparse, csv, os, re, subprocess, sys, tempfile
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
# exponent bits, mantissa bits, bias, top exponent is infinity and NaN
FORMATS = {'bf16': (8, 7, 127, True), 'f8e5m2': (5, 2, 15, True), 'f8e4m3': (4, 3, 7, True), 'f8e3m4': (3, 4, 3, True),
           'f8e4m3fn': (4, 3, 7, False)}
STEP = {'bf16': 2.0 ** -7, 'f16': 2.0 ** -10, 'f8e4m3fn': 2.0 ** -3, 'f8e5m2': 2.0 ** -2, 'f8e4m3': 2.0 ** -3, 'f8e3m4': 2.0 ** -4}
NEAR_ZERO = ('lgamma', 'digamma', 'gelu', 'sin', 'cos', 'tan', 'erf_inv', 'erfc')  # they cancel near their zeros

def values(array, kind):
    """The numbers of an array, as float64; complex as two planes."""
    if array.dtype.kind == 'c':
        return np.stack([array.real, array.imag]).astype(np.float64)
    if kind not in FORMATS or array.dtype.kind not in 'uV':
        return array.astype(np.float64)
    ebits, mbits, bias, ieee = FORMATS[kind]
    bits = array.view(f'u{array.dtype.itemsize}').astype(np.int64)
    mantissa, exponent = bits & ((1 << mbits) - 1), bits >> mbits & ((1 << ebits) - 1)
    v = np.where(exponent == 0, np.ldexp(mantissa.astype(np.float64), 1 - bias - mbits),
                 np.ldexp(1 + mantissa / (1 << mbits), np.maximum(exponent, 1) - bias))
    top = exponent == (1 << ebits) - 1
    if ieee:
        v = np.where(top, np.where(mantissa == 0, np.inf, np.nan), v)
    else:
        v = np.where(top & (mantissa == (1 << mbits) - 1), np.nan, v)
    return np.where(bits >> (ebits + mbits) & 1, -v, v)

def wrong(want, got, kind, mode, dots, name, sampled):
    """What is wrong with a result, or None."""
    if sampled and got.size > 8192 and got.size != want.size:
        got = got.reshape(-1)[::(got.size // 4096) | 1]
    if want.shape != got.shape:
        return f'shape {got.shape}, expected {want.shape}'
    if kind not in STEP and want.dtype.kind in 'iub':
        bad = int(np.sum(want != got))
        return f'{bad} of {want.size} differ' if bad else None
    w, g = values(want, kind), values(got, kind)
    finite = np.isfinite(w)
    if not np.array_equal(w[~finite], g[~finite], equal_nan=True) or not np.isfinite(g[finite]).all():
        return 'wrong NaN or infinity'
    w, g = w[finite], g[finite]
    if w.size == 0:
        return None
    reference = mode == 'reference'
    scale, d, depth = np.abs(w).max(), np.abs(w - g), max(1, dots / 4)
    if name.startswith(('unary/', 'binary/')):
        zero = 1e-6 if any(f in name for f in NEAR_ZERO) else 1.2e-38
        limit = (2e-6 if reference else 1e-5) * np.abs(w) + zero * (1 if reference else 4)
    else:
        limit = (4e-6 if reference else 4e-3 * depth if dots else 2e-5) * scale + 1.2e-38
    limit = limit + STEP.get(kind, 0) * np.abs(w) * (1 if reference else 4)
    if (d > limit).any():
        i = int(np.argmax(d - limit))
        return f'got {g[i]:.9g}, expected {w[i]:.9g}; {int((d > limit).sum())} of {d.size} over the limit'
    rms = float(np.sqrt(np.mean((d / scale) ** 2))) if scale else 0.0
    if not reference and dots and kind == 'f32' and rms > 1e-4 * depth:
        return f'root mean square {rms:.2e} of scale'
    return None

def check(tpuc, row, mode, tmp, chip):
    base = os.path.join(HERE, row['program'])
    out = os.path.join(tmp, 'out.npz')
    flags = {'reference': ['--reference'], 'chip': ['--reference', '--numbers=chip'], 'interpret': ['--interpret', '--chip', chip]}[mode]
    r = subprocess.run([tpuc, 'run', *flags, base + '.hlo', '--input', base + '.npz', '--output', out], capture_output=True, text=True, timeout=300)
    if r.returncode:
        return f'exit {r.returncode}: {(r.stderr.strip().splitlines() or [""])[0]}'
    dots = len(re.findall(r' (?:dot|convolution)\(', open(base + '.hlo').read()))
    kinds = row['result_types'].split(',')
    with np.load(base + '.npz') as expected, np.load(out) as got:
        for i, kind in enumerate(kinds):
            key = f'chip{i}' if mode != 'reference' and f'chip{i}' in expected.files else f'out{i}'
            if f'out{i}' not in got.files:
                return f'no out{i}'
            problem = wrong(expected[key], got[f'out{i}'], kind, mode, dots, row['program'], row['outputs'] == 'sample')
            if problem:
                return f'out{i}: {problem}'
    return None

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--tpuc', required=True)
    p.add_argument('--mode', choices=['reference', 'chip', 'interpret'], default='reference')
    p.add_argument('--only', default='')
    p.add_argument('--chip', default='v6e', help='of --mode interpret')
    args = p.parse_args()
    passed = failed = 0
    with open(os.path.join(HERE, 'INDEX.tsv')) as f, tempfile.TemporaryDirectory() as tmp:
        for row in csv.DictReader(f, delimiter='\t'):
            if args.only not in row['program'] or (args.mode == 'interpret' and row['bundles'] == 'no'):
                continue
            try:
                problem = check(os.path.abspath(args.tpuc), row, args.mode, tmp, args.chip)
            except Exception as e:  # an unreadable result is tpuc's fault, and the rest still runs
                problem = f'{type(e).__name__}: {e}'
            if problem:
                print(f'FAIL {row["program"]}: {problem}', flush=True)
            passed, failed = passed + (not problem), failed + bool(problem)
    print(f'{passed} passed, {failed} failed')
    return 1 if failed or not passed else 0

if __name__ == '__main__':
    sys.exit(main())
