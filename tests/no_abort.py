#!/usr/bin/env python3
"""Compiling any real module ends with bundles or a diagnostic: exit code 0 or 1, never an abort, a signal or a hang.

  tests/no_abort.py --tpuc build/tpuc

Every .hlo file under examples, tests and, where it is, the corpus of XLA's own files (../shared/corpus), part by part.
"""
import argparse, concurrent.futures, os, re, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CORPUS = os.path.join(ROOT, '..', 'shared', 'corpus')
LIMIT = 120  # seconds

def modules(folders):
    for folder in folders:
        for where, _, files in sorted(os.walk(folder)):
            for name in sorted(f for f in files if f.endswith('.hlo')):
                parts = re.split(r'(?m)^// -----.*$', open(os.path.join(where, name), errors='replace').read())
                for i, text in enumerate(parts):
                    if text.strip():
                        yield f'{name}.{i}' if len(parts) > 1 else name, text

def compile(tpuc, text):
    with tempfile.NamedTemporaryFile('w', suffix='.hlo') as f:
        f.write(text)
        f.flush()
        try:
            r = subprocess.run([tpuc, f.name, '-o', os.devnull], capture_output=True, text=True, errors='replace', timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return f'no answer in {LIMIT} s'
    if r.returncode not in (0, 1) or (r.returncode == 1 and 'error:' not in r.stderr):
        return f'exit {r.returncode}: {r.stderr[-300:]}'
    return None

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--tpuc', required=True)
    tpuc = os.path.abspath(p.parse_args().tpuc)
    folders = [os.path.join(ROOT, 'examples'), os.path.join(ROOT, 'tests')]
    if os.path.isdir(CORPUS):
        folders.append(CORPUS)
    else:
        print('SKIP corpus: ../shared/corpus is not there')
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [(name, pool.submit(compile, tpuc, text)) for name, text in modules(folders)]
        for name, job in jobs:
            problem = job.result()
            if problem:
                print(f'FAIL {name}: {problem}')
            passed, failed = passed + (not problem), failed + bool(problem)
    print(f'{passed} passed, {failed} failed')
    return 1 if failed or not passed else 0

if __name__ == '__main__':
    sys.exit(main())
