/* WiremillMerge_module.cc - an art producer: puts scores of `wiremill run` into events.

   Products are those of larrecodnn's EmTrackMichelIdTl for hits, by the same writer, so that
   anab::MVAReader<recob::Hit, 4> finds them under this module's label:

   std::vector<anab::MVADescription<4>>  instance emtrkmichel: the tag of the hits, the labels
   std::vector<anab::FeatureVector<4>>   instance emtrkmichelrecobHit: one a hit, by art key

   Rows of ScoreFiles are found by (run, subrun, event) and put at their `hit_id`, the art key that
   WiremillDump wrote as `key`. Hits of planes that Views does not select have zeros, as there. An
   event or a hit without a row, a hit with two, and a row of no hit are exceptions: these files are
   not of these hits. HeldHits tells what becomes of hits that wiremill did not score. Only rows of
   the event at hand are read; the index keeps one entry for each event and file.
   Written from LArSoft's public interfaces; not yet run inside art (README.md).  */
#include "art/Framework/Core/EDProducer.h"
#include "art/Framework/Core/ModuleMacros.h"
#include "art/Framework/Principal/Event.h"
#include "art/Framework/Principal/Handle.h"
#include "canvas/Utilities/InputTag.h"
#include "cetlib_except/exception.h"
#include "fhiclcpp/types/Atom.h"
#include "fhiclcpp/types/Sequence.h"
#include "lardata/ArtDataHelper/MVAWriter.h"
#include "lardataobj/RecoBase/Hit.h"
#include "messagefacility/MessageLogger/MessageLogger.h"

#include <hdf5.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace wiremill
{

class WiremillMerge : public art::EDProducer
{
  public:
    struct Config {
        using Name = fhicl::Name;
        using Comment = fhicl::Comment;
        fhicl::Sequence<std::string> ScoreFiles{ Name ("ScoreFiles"),
                                                 Comment ("outputs of wiremill run") };
        fhicl::Atom<std::string> HitModuleLabel{ Name ("HitModuleLabel"),
                                                 Comment ("tag of the hits, as in the dump") };
        fhicl::Sequence<std::string> NNetOutputs{ Name ("NNetOutputs"),
                                                  Comment ("columns of scores, four") };
        fhicl::Sequence<unsigned int> Views{
            Name ("Views"), Comment ("planes whose hits have scores, as in the dump; empty: all")
        };
        fhicl::Atom<std::string> HeldHits{
            Name ("HeldHits"), Comment ("hits that were not scored: refuse (an exception) or zero"),
            "refuse"
        };
    };
    using Parameters = art::EDProducer::Table<Config>;
    explicit WiremillMerge (Parameters const &parameters);
    ~WiremillMerge () override;
    WiremillMerge (WiremillMerge const &) = delete;
    WiremillMerge &operator= (WiremillMerge const &) = delete;

    void produce (art::Event &event) override;

  private:
    static constexpr size_t n_output = 4;
    using EventID = std::array<int64_t, 3>;
    struct Rows { // of one event, without a gap
        size_t file;
        hsize_t first, n;
    };
    struct File {
        std::string name;
        hid_t id;
    };
    void OpenFile (std::string const &name);
    hsize_t CountRows (File const &file, std::string const &column) const;
    template <class T>
    std::vector<T> Read (File const &file, std::string const &column, hsize_t first,
                         hsize_t n) const;
    void Place (Rows const &rows, EventID const &id,
                std::vector<std::array<float, n_output>> &scores, std::vector<char> &seen,
                std::string &held) const;

    art::InputTag const fHitModuleLabel;
    std::vector<std::string> const fNNetOutputs;
    std::vector<unsigned int> const fViews;
    bool const fZero;
    anab::MVAWriter<n_output> fMVAWriter;
    std::vector<File> fFiles;
    std::map<EventID, std::vector<Rows>> fIndex;
};

static std::string const table = "emtrkmichel";

static std::string text (std::array<int64_t, 3> const &id)
{
    return std::to_string (id[0]) + ":" + std::to_string (id[1]) + ":" + std::to_string (id[2]);
}

WiremillMerge::WiremillMerge (Parameters const &parameters)
    : EDProducer{ parameters }, fHitModuleLabel (parameters ().HitModuleLabel ()),
      fNNetOutputs (parameters ().NNetOutputs ()), fViews (parameters ().Views ()),
      fZero (parameters ().HeldHits () == "zero"), fMVAWriter (producesCollector (), table.c_str ())
{
    if (!fZero && parameters ().HeldHits () != "refuse")
        throw cet::exception ("WiremillMerge") << "HeldHits is \"" << parameters ().HeldHits ()
                                               << "\"; write \"refuse\" or \"zero\".\n";
    if (fNNetOutputs.size () != n_output)
        throw cet::exception ("WiremillMerge")
            << "NNetOutputs has " << fNNetOutputs.size ()
            << " labels; products of this module have " << n_output << ".\n";
    fMVAWriter.produces_using<recob::Hit> ();
    for (auto const &name : parameters ().ScoreFiles ())
        OpenFile (name);
}

WiremillMerge::~WiremillMerge ()
{
    for (auto const &file : fFiles)
        H5Fclose (file.id);
}

hsize_t WiremillMerge::CountRows (File const &file, std::string const &column) const
{
    std::string const path = table + "/" + column;
    hsize_t n = 0;
    if (H5Lexists (file.id, table.c_str (), H5P_DEFAULT) <= 0 ||
        H5Lexists (file.id, path.c_str (), H5P_DEFAULT) <= 0)
        throw cet::exception ("WiremillMerge")
            << file.name << " has no column " << path << "; is it an output of `wiremill run`, and"
            << " does NNetOutputs name its columns?\n";
    hid_t const dataset = H5Dopen2 (file.id, path.c_str (), H5P_DEFAULT);
    hid_t const space = H5Dget_space (dataset);
    bool const flat = H5Sget_simple_extent_ndims (space) == 1;
    if (flat)
        H5Sget_simple_extent_dims (space, &n, nullptr);
    H5Sclose (space);
    H5Dclose (dataset);
    if (!flat)
        throw cet::exception ("WiremillMerge")
            << file.name << ": " << path << " is no column of numbers.\n";
    return n;
}

static hid_t memoryType (int64_t)
{
    return H5T_NATIVE_INT64;
}
static hid_t memoryType (float)
{
    return H5T_NATIVE_FLOAT;
}

template <class T>
std::vector<T> WiremillMerge::Read (File const &file, std::string const &column, hsize_t first,
                                    hsize_t n) const
{
    std::vector<T> values (n);
    std::string const path = table + "/" + column;
    hid_t const dataset = H5Dopen2 (file.id, path.c_str (), H5P_DEFAULT);
    hid_t const space = H5Dget_space (dataset), memory = H5Screate_simple (1, &n, nullptr);
    bool const well =
        H5Sselect_hyperslab (space, H5S_SELECT_SET, &first, nullptr, &n, nullptr) >= 0 &&
        H5Dread (dataset, memoryType (T ()), memory, space, H5P_DEFAULT, values.data ()) >= 0;
    H5Sclose (memory);
    H5Sclose (space);
    H5Dclose (dataset);
    if (!well)
        throw cet::exception ("WiremillMerge")
            << file.name << ": " << path << " cannot be read; is the"
            << " file whole? `wiremill rebuild` repairs outputs.\n";
    return values;
}

// Opens a file, checks its columns, and enters where the rows of each event lie.
void WiremillMerge::OpenFile (std::string const &name)
{
    hid_t const id = H5Fopen (name.c_str (), H5F_ACC_RDONLY, H5P_DEFAULT);
    if (id < 0)
        throw cet::exception ("WiremillMerge")
            << name << " cannot be opened as HDF5; does it exist, and"
            << " has the campaign finished it?\n";
    fFiles.push_back ({ name, id });
    File const &file = fFiles.back ();
    hsize_t const n = CountRows (file, "run"), block = 1 << 20;
    std::vector<std::string> columns = { "subrun", "event", "hit_id", "status" };
    columns.insert (columns.end (), fNNetOutputs.begin (), fNNetOutputs.end ());
    for (auto const &column : columns)
        if (CountRows (file, column) != n)
            throw cet::exception ("WiremillMerge")
                << name << ": " << table << "/" << column << " and run have different lengths.\n";
    Rows *last = nullptr;
    EventID last_id{};
    for (hsize_t first = 0; first < n; first += block) {
        hsize_t const count = std::min (block, n - first);
        auto const run = Read<int64_t> (file, "run", first, count);
        auto const subrun = Read<int64_t> (file, "subrun", first, count);
        auto const event = Read<int64_t> (file, "event", first, count);
        for (hsize_t i = 0; i < count; i++) {
            EventID const here = { run[i], subrun[i], event[i] };
            if (!last || here != last_id) {
                auto &rows = fIndex[here];
                rows.push_back ({ fFiles.size () - 1, first + i, 0 });
                last = &rows.back ();
                last_id = here;
            }
            last->n++;
        }
    }
}

// Puts the rows of an event at their hits. `held` becomes what was not scored first, and how much.
void WiremillMerge::Place (Rows const &rows, EventID const &id,
                           std::vector<std::array<float, n_output>> &scores,
                           std::vector<char> &seen, std::string &held) const
{
    File const &file = fFiles[rows.file];
    auto const keys = Read<int64_t> (file, "hit_id", rows.first, rows.n);
    auto const status = Read<int64_t> (file, "status", rows.first, rows.n);
    std::vector<std::vector<float>> columns;
    for (auto const &label : fNNetOutputs)
        columns.push_back (Read<float> (file, label, rows.first, rows.n));
    for (hsize_t i = 0; i < rows.n; i++) {
        auto const key = static_cast<size_t> (keys[i]);
        if (keys[i] < 0 || key >= scores.size () || seen[key])
            throw cet::exception ("WiremillMerge")
                << file.name << ": row " << rows.first + i << " has hit_id " << keys[i]
                << ", and event " << text (id) << " has " << scores.size () << " hits"
                << (keys[i] >= 0 && key < scores.size () ? ", this one twice" : "")
                << "; were these scores made of the hits in HitModuleLabel?\n";
        seen[key] = 1;
        if (status[i] == 0)
            for (size_t k = 0; k < n_output; k++)
                scores[key][k] = columns[k][i];
        else if (held.empty ())
            held = file.name + ":" + text (id) + ":" + std::to_string (key) + " (status " +
                   std::to_string (status[i]) + ")";
    }
}

void WiremillMerge::produce (art::Event &event)
{
    EventID const id = { event.run (), event.subRun (), event.id ().event () };
    auto const hits = event.getValidHandle<std::vector<recob::Hit>> (fHitModuleLabel);
    std::vector<std::array<float, n_output>> scores (hits->size (), std::array<float, n_output>{});
    std::vector<char> seen (hits->size ());
    std::string held;
    auto const at = fIndex.find (id);
    if (at != fIndex.end ())
        for (auto const &rows : at->second)
            Place (rows, id, scores, seen, held);
    for (size_t key = 0; key < hits->size (); key++) {
        unsigned int const plane = (*hits)[key].WireID ().Plane;
        if (!seen[key] &&
            (fViews.empty () || std::find (fViews.begin (), fViews.end (), plane) != fViews.end ()))
            throw cet::exception ("WiremillMerge")
                << "event " << text (id) << ", hit " << key << ": no row in " << fFiles.size ()
                << " ScoreFiles; add the file of this event, or compare Views and HitModuleLabel"
                << " with the dump's.\n";
    }
    if (!held.empty () && !fZero)
        throw cet::exception ("WiremillMerge")
            << held
            << " was not scored; `wiremill held` lists why. Write HeldHits: \"zero\" to go on"
            << " with scores of 0 for such hits.\n";
    if (!held.empty ())
        mf::LogWarning ("WiremillMerge") << "hits without scores have zeros; the first: " << held;

    auto const output =
        fMVAWriter.initOutputs<recob::Hit> (fHitModuleLabel, hits->size (), fNNetOutputs);
    for (size_t key = 0; key < hits->size (); key++)
        fMVAWriter.setOutput (output, key, scores[key]);
    fMVAWriter.saveOutputs (event);
}

} // namespace wiremill
DEFINE_ART_MODULE (wiremill::WiremillMerge)
