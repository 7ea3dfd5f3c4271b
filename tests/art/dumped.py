"""dumped.py - prints the regions and hits of a dump as tests/art/run.cc prints those of its events; checks the rest.

usage: dumped.py FILE
"""
import sys

import h5py
import numpy as np

with h5py.File(sys.argv[1]) as file:
    get = {name: file[name][:] for group in file for name in (f"{group}/{column}" for column in file[group])}
assert get["event_table/event_id"].tolist() == [[5, 1, 1], [5, 1, 2]]
for name, value in ("n_tick", 6000), ("tick_us", 0.5), ("trigger_offset", 500), ("tau_us", 10000):
    assert get[f"event_table/{name}"].tolist() == [value] * 2, name
assert get["plane_table/plane"].tolist() == [0, 1] * 2 and get["plane_table/n_wire"].tolist() == [60] * 4
channel = np.arange(120)
for name, wanted in ("channel", channel), ("wire", channel % 60), ("plane", channel // 60):
    assert np.array_equal(get[f"wire_table/{name}"], wanted), name
assert get["bad_channel/channel"].tolist() == [7, 7] and get["bad_channel/event_id"][:, 2].tolist() == [1, 2]
end = np.cumsum(get["roi_table/n"])
assert end[-1] == len(get["roi_value/adc"])
for event in 1, 2:
    for i in np.flatnonzero(get["roi_table/event_id"][:, 2] == event):
        n = get["roi_table/n"][i]
        adc = get["roi_value/adc"][end[i] - n : end[i]]
        print("roi", event, get["roi_table/channel"][i], get["roi_table/tick"][i], n, f"{adc[0]:.9g} {adc[-1]:.9g}")
    for i in np.flatnonzero(get["hit_table/event_id"][:, 2] == event):
        row = [get[f"hit_table/{column}"][i] for column in ("key", "plane", "wire")]
        print("hit", event, *row, f"{get['hit_table/time'][i]:.9g}")
