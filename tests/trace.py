#!/usr/bin/env python3
"""What `tpuc run --trace` writes, held against the run's own statistics.

  tests/trace.py --tpuc build/tpuc

The file is Chrome's trace event JSON as Perfetto reads it: every event has the fields of its phase, slices of a lane do not overlap, arrows
begin, go through a DMA and end. The slices of the lane `kernels` add up to the run's cycles and to each kernel's; the busy cycles of the MXU,
XLU and EUP lanes are the slots that the interpreter counted; the bytes of the DMA lanes are the bytes through HBM.
"""
import argparse, collections, json, os, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXAMPLES = ['01_add.hlo', '02_matmul.hlo', '03_softmax.hlo', 'mini_attention.hlo', 'kernels/matmul.tk']
FIELDS = {'X': {'name', 'ts', 'dur', 'pid', 'tid', 'args'}, 'M': {'name', 'pid', 'args'}, 'C': {'name', 'ts', 'pid', 'args'},
          's': {'id', 'cat', 'name', 'ts', 'pid', 'tid'}, 't': {'id', 'cat', 'name', 'ts', 'pid', 'tid'}, 'f': {'id', 'cat', 'name', 'ts', 'pid', 'tid', 'bp'}}

def check(tpuc, path, folder):
    file = os.path.join(folder, 'trace.json')
    stats = json.loads(subprocess.run([tpuc, 'run', path, '--json', '--trace', file], check=True, capture_output=True, text=True).stdout)
    trace = json.load(open(file))
    lanes, slices, flows, wrong = {}, collections.defaultdict(list), collections.defaultdict(str), []
    for e in trace['traceEvents']:
        if e['ph'] not in FIELDS or not FIELDS[e['ph']] <= set(e):
            return [f'event {e}']
        if e['ph'] == 'M' and e['name'] == 'thread_name':
            lanes[e['tid']] = e['args']['name']
        if e['ph'] == 'X':
            slices[lanes[e['tid']]].append(e)
        if e['ph'] in 'stf':
            flows[e['id']] += e['ph']
    for lane, events in slices.items():
        events.sort(key=lambda e: e['ts'])
        if any(a['ts'] + a['dur'] > b['ts'] for a, b in zip(events, events[1:])) or any(e['dur'] <= 0 for e in events):
            wrong.append(f'slices of {lane} overlap or are empty')
    if sum(e['dur'] for e in slices['kernels']) != stats['cycles'] or slices['kernels'][0]['ts'] != 0:
        wrong.append(f"the kernels lane has {sum(e['dur'] for e in slices['kernels'])} cycles, the run {stats['cycles']}")
    for k in stats['kernels']:
        have = sum(e['dur'] for e in slices['kernels'] if e['name'] == k['name'])
        if have != k['cycles']:
            wrong.append(f"kernel {k['name']}: {have} cycles, the run says {k['cycles']}")
    for unit in ('mxu', 'xlu', 'eup'):
        busy = sum(e['args']['busy_cycles'] for lane, events in slices.items() for e in events
                   if lane.startswith(unit) and not lane.endswith('weights'))
        counted = sum(k['slots'][unit] for k in stats['kernels'])
        if busy != counted:
            wrong.append(f'{unit}: {busy} busy cycles, the run counted {counted}')
    moved = sum(e['args']['bytes'] for lane, events in slices.items() for e in events if lane.startswith('DMA'))
    if moved != stats['hbm_bytes']:
        wrong.append(f"DMA lanes have {moved} bytes, the run {stats['hbm_bytes']}")
    if any(f != 'stf' for f in flows.values()) or len(flows) != sum(len(e) for lane, e in slices.items() if lane.startswith('DMA')):
        wrong.append('a DMA has no arrow from its start to its end')
    names = {o for k in stats['kernels'] for o in k['op_names']}
    if names and not names & {e['name'] for lane, events in slices.items() for e in events if lane.startswith('HLO')}:
        wrong.append('no op_name of a kernel is in the HLO lanes')
    return wrong

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--tpuc', required=True)
    tpuc = os.path.abspath(p.parse_args().tpuc)
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in EXAMPLES:
            problems = check(tpuc, os.path.join(ROOT, 'examples', name), folder)
            passed, failed = passed + (not problems), failed + bool(problems)
            for problem in problems:
                print(f'FAIL {name}: {problem}')
    print(f'{passed} passed, {failed} failed')
    return 1 if failed or not passed else 0

if __name__ == '__main__':
    sys.exit(main())
