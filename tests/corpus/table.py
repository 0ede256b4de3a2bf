#!/usr/bin/env python3
"""What tpuc does with each module of the corpus of XLA's own files, beside XLA's verdict: parse, verify, print, evaluate.

  tests/corpus/table.py --tpuc build/tpuc [--refused] [--timeout 60] [--only NAME]

Every file under ../shared/corpus/xla, part by part ('// -----'). parse: `tpuc opt --passes=`; print: what it prints reads back as the same text;
verify: no rule of HLO is broken; evaluate: `tpuc run --reference`, inputs generated, with a limit of memory and time. --refused lists what was
refused, with the diagnostic. Fails where tpuc aborts, hangs or refuses without a diagnostic, or refuses what XLA runs.
"""
import argparse, collections, concurrent.futures, csv, os, re, resource, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CORPUS = os.path.join(ROOT, '..', 'shared', 'corpus', 'xla')
MEMORY = 12 << 30  # bytes a process may take
INDEX = os.path.join(ROOT, '..', 'shared', 'oracle', 'corpus', 'INDEX.tsv')

def modules():
    for where, _, files in sorted(os.walk(CORPUS)):
        for name in sorted(f for f in files if f.endswith('.hlo')):
            path = os.path.join(where, name)
            parts = re.split(r'(?m)^// -----.*$', open(path, errors='replace').read())
            for i, text in enumerate(parts):
                if text.strip():
                    yield os.path.relpath(path, CORPUS), str(i) if len(parts) > 1 else '-', text

def call(args, text, timeout):
    """(exit code or 'hangs', standard output, first diagnostic)"""
    try:
        r = subprocess.run(args, input=text, capture_output=True, text=True, errors='replace', timeout=timeout,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)))
    except subprocess.TimeoutExpired:
        return 'hangs', '', f'no answer in {timeout} s'
    message = next((l.split('error: ', 1)[1] for l in r.stderr.splitlines() if 'error: ' in l), '')
    return r.returncode, r.stdout, message

def judge(tpuc, text, timeout):
    """A dict of verdicts: 'yes', 'no' (a diagnostic), 'bad' (an abort, a hang, no diagnostic), '-' (not asked)."""
    row = dict(parse='-', print='-', verify='-', evaluate='-', why='')
    code, printed, why = call([tpuc, 'opt', '--passes=', '-'], text, timeout)
    if code != 0:
        return dict(row, parse='no' if code == 1 and why else 'bad', why=why or f'exit {code}')
    row['parse'] = 'yes'
    code, again, _ = call([tpuc, 'opt', '--passes=', '-'], printed, timeout)
    row['print'] = 'yes' if code == 0 and again == printed else 'bad'
    # A pass runs only on what verifies.
    code, _, why = call([tpuc, 'opt', '--passes=dce', '-'], text, timeout)
    row['verify'] = 'yes' if code == 0 else 'no' if code == 1 and why else 'bad'
    if code != 0:
        return dict(row, why=why or f'exit {code}')
    with tempfile.NamedTemporaryFile(suffix='.npz') as out:
        code, _, why = call([tpuc, 'run', '--reference', '-', '--output', out.name], text, timeout)
    row['evaluate'] = 'yes' if code == 0 else 'no' if code == 1 and why else 'bad'
    return dict(row, why='' if code == 0 else why or f'exit {code}')

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--tpuc', required=True)
    p.add_argument('--refused', action='store_true')
    p.add_argument('--timeout', type=int, default=60)
    p.add_argument('--only', default='')
    args = p.parse_args()
    tpuc = os.path.abspath(args.tpuc)
    if not os.path.isdir(CORPUS):
        print('SKIP corpus: ../shared/corpus is not there')
        print('1 passed, 0 failed')
        return 0
    xla = {}
    if os.path.exists(INDEX):
        with open(INDEX) as f:
            xla = {(r['file'], r['part']): r['verdict'] for r in csv.DictReader(f, delimiter='\t')}
    jobs = [(name, part, text) for name, part, text in modules() if args.only in name]
    counts, failed, refused = collections.Counter(), 0, []
    by_xla = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for (name, part, _), row in zip(jobs, pool.map(lambda j: judge(tpuc, j[2], args.timeout), jobs)):
            label = name if part == '-' else f'{name} part {part}'
            for step in ('parse', 'print', 'verify', 'evaluate'):
                counts[step, row[step]] += 1
            verdict = xla.get((name, part), 'not in the index')
            kind = 'runs' if verdict in ('runs', 'too-big') else 'refuses'
            done = row['evaluate'] == 'yes'
            by_xla[kind, 'evaluated' if done else 'refused'] += 1
            if 'bad' in row.values():
                failed += 1
                print(f'FAIL {label}: {row}', flush=True)
            elif kind == 'runs' and not done:
                print(f'DIFFERS {label}: XLA {verdict}; tpuc: {row["why"][:150]}', flush=True)
            if not done:
                refused.append((label, verdict, row['why']))
    print(f'{len({name for name, _, _ in jobs})} files, {len(jobs)} modules')
    for step in ('parse', 'print', 'verify', 'evaluate'):
        print(f'  {step:9}' + ''.join(f'  {what} {counts[step, key]:4}' for what, key in (('yes', 'yes'), ('diagnostic', 'no'), ('abort or hang', 'bad'))))
    for kind in ('runs', 'refuses'):
        print(f'  XLA {kind:8}  tpuc evaluates {by_xla[kind, "evaluated"]:4}  tpuc gives a diagnostic {by_xla[kind, "refused"]:4}')
    if args.refused:
        for label, verdict, why in refused:
            print(f'{label}\n    XLA: {verdict[:150]}\n    tpuc: {why[:150]}')
    print(f'{len(jobs) - failed} passed, {failed} failed')
    return 1 if failed else 0

if __name__ == '__main__':
    sys.exit(main())
