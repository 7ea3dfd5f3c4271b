"""magnify.py - writes tests/e2e/magnify.root by ROOT itself, as Wire-Cell's MagnifySink and others do; convert.t reads the file.

usage: magnify.py OUT.root     with the Python of ROOT (pip install root); the file that is there was written by ROOT 6.40

Sample k of channel c is value (c, k), in TH2F, TH2D, TH2I and TH2S, each compressed by another algorithm, one with errors. The hits
are a TTree of all widths of numbers, and an RNTuple. Trun has lists and texts, too.
"""
import array
import sys

PLANES = ("u", 0, 12), ("v", 12, 12), ("w", 24, 16)     # name, first channel, channels
TICKS, HITS = 50, 40


def value(channel, tick):
    return (channel * 31 + tick * 7) % 97 - 20 if (channel + tick // 10) % 3 == 0 else 0


def main(path):
    import ROOT
    file = ROOT.TFile(path, "RECREATE")
    for algorithm, tag, kind in (1, "gauss", ROOT.TH2F), (4, "wiener", ROOT.TH2D), (5, "threshold", ROOT.TH2I), (2, "raw", ROOT.TH2S):
        file.SetCompressionSettings(100 * algorithm + 5)   # zlib, LZ4, ZSTD, LZMA
        for name, first, n in PLANES:
            plane = kind(f"h{name}_{tag}", f"{tag} of plane {name}", n, first - 0.5, first + n - 0.5, TICKS, 0, TICKS)
            if tag == "gauss":
                plane.Sumw2()
            for channel in range(n):
                for tick in range(TICKS):
                    plane.SetBinContent(channel + 1, tick + 1, value(first + channel, tick))
            plane.Write()
    tree = ROOT.TTree("Trun", "Trun")
    numbers = {name: array.array("i", [n]) for name, n in (("runNo", 27), ("subRunNo", 4), ("eventNo", 409), ("detector", 2))}
    text, list_ = ROOT.std.string("PDHD"), ROOT.std.vector("double")((0.5, 1.5))
    for name, number in numbers.items():
        tree.Branch(name, number, f"{name}/I")
    tree.Branch("name", text)
    tree.Branch("shifts", list_)
    tree.Fill()
    tree.Write()
    kinds = {"run": "i", "subrun": "i", "event": "i", "plane": "h", "channel": "H", "key": "l", "peak": "d", "charge": "f", "rms": "f"}
    leaves = {"i": "I", "h": "S", "H": "s", "l": "L", "d": "D", "f": "F"}
    hits, cells = ROOT.TTree("hits", "hits"), {name: array.array(kind, [0]) for name, kind in kinds.items()}
    for name, kind in kinds.items():
        hits.Branch(name, cells[name], f"{name}/{leaves[kind]}")
    for i in range(HITS):
        row = {"run": 27, "subrun": 4, "event": 409, "plane": 0 if i < 12 else 1 if i < 24 else 2, "channel": i, "key": 10**10 + i,
               "peak": i + 0.25, "charge": 2 * i, "rms": 1.5}
        for name, number in row.items():
            cells[name][0] = number
        hits.Fill()
    hits.Write()
    file.Close()
    model = ROOT.RNTupleModel.Create()
    for name, kind in ("event", "std::int32_t"), ("plane", "std::int16_t"), ("wire", "std::uint16_t"), ("time", "double"):
        model.MakeField[kind](name)
    update = ROOT.TFile(path, "UPDATE")
    writer = ROOT.RNTupleWriter.Append(model, "rhits", update)
    for i in range(HITS):
        entry = writer.CreateEntry()
        for name, number in ("event", 409), ("plane", 0), ("wire", i), ("time", i + 0.25):
            entry[name] = number
        writer.Fill(entry)
    writer.CommitDataset()
    del writer
    update.Close()


if __name__ == "__main__":
    main(sys.argv[1])
