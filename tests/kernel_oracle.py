#!/usr/bin/env python3
"""Compares the example kernels with XLA's results: on bundles, on -O0 bundles and on the block evaluator in chip numbers.

  tests/kernel_oracle.py --tpuc build/tpuc [--oracle FOLDER] [--only splash] [--modes bundles,O0,reference]

kernel_oracle.tsv beside this file: program, kernel file, --set, and further settings (parted by blanks) that must give the same results.
kernel_oracle/<program>.npz holds what XLA gives for the same inputs, as tests/oracle/README.md says. An online softmax rescales its sums
block by block, so its limit is 8e-3 of scale and a root mean square of 2e-4; others are held to tests/oracle/run.py's.
"""
import argparse, csv, importlib.util, os, subprocess, sys, tempfile
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
spec = importlib.util.spec_from_file_location('oracle_run', os.path.join(HERE, 'oracle', 'run.py'))
oracle = importlib.util.module_from_spec(spec)
spec.loader.exec_module(oracle)

MODES = {'bundles': [], 'O0': ['-O0'], 'reference': ['--reference', '--numbers=chip']}

def wrong(want, got, online):
    kind = 'bf16' if want.dtype == np.uint16 else 'f32'
    if got.size > 8192 and got.size != want.size:
        got = got.reshape(-1)[::(got.size // 4096) | 1]
    if want.size != got.size:
        return f'shape {got.shape}, expected {want.shape}'
    w, g = oracle.values(want, kind).reshape(-1), oracle.values(got, kind).reshape(-1)
    if not np.isfinite(g).all():
        return 'NaN or infinity where a number is expected'
    scale, d = np.abs(w).max(), np.abs(w - g)
    limit = (8e-3 if online else 4e-3) * scale + oracle.STEP.get(kind, 0) * np.abs(w)
    if (d > limit).any():
        return f'max error {d.max() / scale:.2e} of scale'
    rms = float(np.sqrt(np.mean((d / scale) ** 2)))
    most = (2e-4 if online else 1e-4) + oracle.STEP.get(kind, 0) / 8
    return f'root mean square {rms:.2e} of scale' if rms > most else None

def check(tool, mode, kernel, setting, npz, online):
    command = [tool, 'run', *MODES[mode], os.path.join(ROOT, kernel), '--input', npz]
    if setting:
        command += ['--set', setting]
    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, 'out.npz')
        r = subprocess.run(command + ['--output', out], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if r.returncode:
            return f'exit {r.returncode}: ' + (r.stderr.strip().splitlines() or ['(no message)'])[0][:200]
        got, z = np.load(out), np.load(npz)
        for i in range(sum(k.startswith('out') for k in z.files)):
            if f'out{i}' not in got.files:
                return f'no out{i}'
            e = wrong(z.get(f'chip{i}', z[f'out{i}']), got[f'out{i}'], online)
            if e:
                return f'out{i}: {e}'
    return None

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--tpuc', required=True)
    p.add_argument('--oracle', default=os.path.join(HERE, 'kernel_oracle'), help='folder with the .npz files')
    p.add_argument('--only', default='')
    p.add_argument('--modes', default='bundles,O0,reference')
    args = p.parse_args()
    tool, passed, failed = os.path.abspath(args.tpuc), 0, 0
    with open(os.path.join(HERE, 'kernel_oracle.tsv')) as f:
        rows = list(csv.DictReader(f, delimiter='\t'))
    for row in rows:
        name = row['program']
        npz = os.path.join(args.oracle, os.path.basename(name) + '.npz')
        if args.only not in name:
            continue
        if not os.path.exists(npz):
            print(f'SKIP {name}: {npz} is missing')
            continue
        online = '/flash' in name or '/splash' in name
        for more in [''] + (row['further'] or '').split():
            setting = ','.join(filter(None, [row['set'], more]))
            for mode in args.modes.split(','):
                e = check(tool, mode, row['file'], setting, npz, online)
                passed, failed = passed + (not e), failed + bool(e)
                if e:
                    print(f'FAIL {name} {mode} {setting}: {e}', flush=True)
    print(f'{passed} passed, {failed} failed')
    return 1 if failed or not passed else 0

if __name__ == '__main__':
    sys.exit(main())
