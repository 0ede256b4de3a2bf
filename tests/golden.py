#!/usr/bin/env python3
"""Golden outputs: what every example becomes at every stage, kept under golden/ and compared byte by byte.

  tests/golden.py --tpuc build/tpuc             compare; prints a diff for each file that differs
  tests/golden.py --tpuc build/tpuc --update    write them anew (make golden)

golden/<example>/: the HLO after each pass that changed it, kernels.tk, bundles.txt, counts.json (what `--json` says),
output.txt (results of the seeded inputs: all values up to 64 KiB, above that a sample and a checksum). Bundles over 64 KiB: a checksum.
"""
import argparse, difflib, hashlib, json, os, struct, subprocess, sys, tempfile, zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SAMPLE_BYTES = 64 * 1024
COUNTS = ('bundles', 'calls', 'fills', 'flops', 'grid_steps', 'max_live_vregs', 'name', 'ops', 'schedule_cycles', 'spills', 'temp_loads',
          'temp_stores', 'vmem_bytes', 'cycles', 'stalls', 'slots', 'loops')

def run(command, **kw):
    r = subprocess.run(command, capture_output=True, cwd=ROOT, **kw)
    if r.returncode:
        raise RuntimeError(f'{" ".join(command)}: exit {r.returncode}\n{r.stderr.decode(errors="replace")}')
    return r.stdout

def npy_text(name, data):
    """One array of an .npz as text: type, shape, then values or a sample of their bytes with a checksum."""
    header_size = struct.unpack('<H', data[8:10])[0]
    header = data[10:10 + header_size].decode('latin1').strip()
    body = data[10 + header_size:]
    lines = [f'{name} {header}']
    if len(body) <= SAMPLE_BYTES:
        shown = body
    else:
        step = (len(body) // 8 // 2048 | 1) * 8
        shown = b''.join(body[i:i + 8] for i in range(0, len(body) - 7, step))
        lines.append(f'sha256 {hashlib.sha256(body).hexdigest()}')
    for i in range(0, len(shown), 32):
        lines.append(shown[i:i + 32].hex())
    return '\n'.join(lines) + '\n'

def npz_text(path):
    with zipfile.ZipFile(path) as z:
        return ''.join(npy_text(n, z.read(n)) for n in sorted(z.namelist()))

def short(text):
    """A text of more than SAMPLE_BYTES as its size and checksum."""
    data = text.encode()
    if len(data) <= SAMPLE_BYTES:
        return text
    return f'{text.count(chr(10))} lines, {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}\n'

def stages(tpuc, example):
    """File name -> text of everything that golden/<example> holds."""
    out = {}
    with tempfile.TemporaryDirectory() as tmp:
        dump = os.path.join(tmp, 'dump')
        bundles = os.path.join(tmp, 'bundles.txt')
        result = os.path.join(tmp, 'out.npz')
        r = subprocess.run([tpuc, example, '-o', bundles, '--dump-to', dump], capture_output=True, text=True)
        if r.returncode == 1:  # an example of a diagnostic
            return {'diagnostic.txt': r.stderr.replace(example, os.path.basename(example))}
        if r.returncode:
            raise RuntimeError(f'{example}: exit {r.returncode}\n{r.stderr}')
        for name in sorted(os.listdir(dump)):
            if '.after_' in name:
                out[name] = open(os.path.join(dump, name)).read()
        if not example.endswith('.tk'):
            out['kernels.tk'] = run([tpuc, example, '--stop-after=kernel', '-o', '-']).decode()
        out['bundles.txt'] = short(open(bundles).read())
        stats = json.loads(run([tpuc, 'run', '--json', bundles, '--output', result]))
        counts = {'cycles': stats['cycles'], 'hbm_bytes': stats['hbm_bytes'],
                  'kernels': [{k: v for k, v in kernel.items() if k in COUNTS} for kernel in stats['kernels']]}
        out['counts.json'] = json.dumps(counts, indent=1, sort_keys=True) + '\n'
        out['output.txt'] = npz_text(result)
    return out

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--tpuc', required=True)
    p.add_argument('--update', action='store_true')
    p.add_argument('--only', default='')
    args = p.parse_args()
    tpuc = os.path.abspath(args.tpuc)
    passed = failed = 0
    names = sorted(os.path.join(d, f) for d in ('examples', 'examples/kernels') for f in os.listdir(os.path.join(ROOT, d))
                   if f.endswith(('.hlo', '.tk')))
    for example in names:
        if args.only not in example:
            continue
        folder = os.path.join(ROOT, 'golden', os.path.splitext(os.path.basename(example))[0])
        try:
            files = stages(tpuc, example)  # relative: bundles name source files
        except (RuntimeError, KeyError, ValueError) as e:
            print(f'FAIL {example}: {e}')
            failed += 1
            continue
        if args.update:
            os.makedirs(folder, exist_ok=True)
            for old in os.listdir(folder):
                if old not in files:
                    os.remove(os.path.join(folder, old))
            for name, text in files.items():
                with open(os.path.join(folder, name), 'w') as f:
                    f.write(text)
            passed += 1
            continue
        kept = set(os.listdir(folder)) if os.path.isdir(folder) else set()
        wrong = sorted(kept.symmetric_difference(files))
        for name in sorted(kept & set(files)):
            want = open(os.path.join(folder, name)).read()
            if want != files[name]:
                wrong.append(name)
                diff = difflib.unified_diff(want.splitlines(), files[name].splitlines(), f'golden/{name}', 'now', lineterm='', n=1)
                print('\n'.join(list(diff)[:40]))
        if wrong:
            print(f'FAIL {example}: {", ".join(wrong)}')
        passed, failed = passed + (not wrong), failed + bool(wrong)
    print(f'{passed} passed, {failed} failed')
    return 1 if failed else 0

if __name__ == '__main__':
    sys.exit(main())
