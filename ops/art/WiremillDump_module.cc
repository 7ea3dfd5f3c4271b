/* WiremillDump_module.cc - an art analyzer: writes hits and wires of events for `wiremill run`.

   One HDF5 file a job, in wiremill's exchange layout (schema/FORMATS.md): events with what the
   electron lifetime needs, the planes that have hits, the map from channels to wires, regions
   of interest of recob::Wire, channels that are not good, and hits, whose `key` is the art key. The
   file is written under another name and renamed at the end of the job: one that exists is whole.

   What EmTrackMichelIdTl leaves out is left out here: wires of channels that ChannelStatusService
   does not call good, wires shorter than NumberTimeSamples, samples behind its end. The lifetime is
   that of DetectorPropertiesService, exponential; one from a database by position is not written.
   Written from LArSoft's public interfaces; not yet run inside art (README.md).  */
#include "art/Framework/Core/EDAnalyzer.h"
#include "art/Framework/Core/ModuleMacros.h"
#include "art/Framework/Principal/Event.h"
#include "art/Framework/Principal/Handle.h"
#include "art/Framework/Services/Registry/ServiceHandle.h"
#include "canvas/Utilities/InputTag.h"
#include "cetlib_except/exception.h"
#include "fhiclcpp/types/Atom.h"
#include "fhiclcpp/types/Sequence.h"
#include "larcore/Geometry/WireReadout.h"
#include "lardata/DetectorInfoServices/DetectorClocksService.h"
#include "lardata/DetectorInfoServices/DetectorPropertiesService.h"
#include "lardataobj/RecoBase/Hit.h"
#include "lardataobj/RecoBase/Wire.h"
#include "larevt/CalibrationDBI/Interface/ChannelStatusProvider.h"
#include "larevt/CalibrationDBI/Interface/ChannelStatusService.h"
#include "messagefacility/MessageLogger/MessageLogger.h"

#include <hdf5.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

namespace wiremill
{

class WiremillDump : public art::EDAnalyzer
{
  public:
    struct Config {
        using Name = fhicl::Name;
        using Comment = fhicl::Comment;
        fhicl::Atom<std::string> OutputName{ Name ("OutputName"), Comment ("HDF5 file to write") };
        fhicl::Atom<std::string> HitModuleLabel{ Name ("HitModuleLabel"),
                                                 Comment ("tag of the hits to be scored") };
        fhicl::Atom<std::string> WireLabel{ Name ("WireLabel"),
                                            Comment ("tag of the deconvoluted wires") };
        fhicl::Sequence<unsigned int> Views{ Name ("Views"),
                                             Comment ("planes whose hits are scored; empty: all") };
    };
    using Parameters = art::EDAnalyzer::Table<Config>;
    explicit WiremillDump (Parameters const &parameters);
    ~WiremillDump () override;
    WiremillDump (WiremillDump const &) = delete;
    WiremillDump &operator= (WiremillDump const &) = delete;

    void analyze (art::Event const &event) override;
    void endJob () override;

  private:
    // Values of the columns of one event, which Flush appends to their datasets.
    template <class T> using Columns = std::map<std::string, std::vector<T>>;
    using EventID = std::array<int64_t, 3>;

    void WriteMap ();
    void AddWires (art::Event const &event, EventID const &id, size_t n_tick);
    void AddHits (art::Event const &event, EventID const &id);
    void AddEventID (std::string const &table, EventID const &id);
    template <class T> void Flush (Columns<T> &columns);
    template <class T> void Append (std::string const &name, std::vector<T> const &values);
    void Check (bool well, std::string const &what) const;

    std::string const fOutputName, fPartName;
    art::InputTag const fHitModuleLabel, fWireLabel;
    std::vector<unsigned int> const fViews;
    hid_t fFile = -1;
    bool fMapWritten = false;
    Columns<int64_t> fWhole;
    Columns<float> fReal;
};

WiremillDump::WiremillDump (Parameters const &parameters)
    : EDAnalyzer{ parameters }, fOutputName (parameters ().OutputName ()),
      fPartName (fOutputName + ".part"), fHitModuleLabel (parameters ().HitModuleLabel ()),
      fWireLabel (parameters ().WireLabel ()), fViews (parameters ().Views ())
{
    fFile = H5Fcreate (fPartName.c_str (), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    Check (fFile >= 0, "cannot be created; is its folder there, and may you write to it?");
    std::string const layout = "wiremill-exchange-1";
    hid_t const type = H5Tcopy (H5T_C_S1), space = H5Screate (H5S_SCALAR);
    H5Tset_size (type, layout.size ());
    hid_t const attribute = H5Acreate2 (fFile, "layout", type, space, H5P_DEFAULT, H5P_DEFAULT);
    bool const well = attribute >= 0 && H5Awrite (attribute, type, layout.data ()) >= 0;
    H5Aclose (attribute);
    H5Sclose (space);
    H5Tclose (type);
    Check (well, "cannot be written; is the disk full?");
}

WiremillDump::~WiremillDump ()
{
    if (fFile >= 0)
        H5Fclose (fFile); // the job failed: the file keeps the name that ends in .part
}

void WiremillDump::Check (bool well, std::string const &what) const
{
    if (!well)
        throw cet::exception ("WiremillDump") << fPartName << " " << what << "\n";
}

// Appends values to a dataset, which the first call creates. event_id has rows of three.
template <class T> void WiremillDump::Append (std::string const &name, std::vector<T> const &values)
{
    hid_t const type = std::is_same_v<T, float> ? H5T_NATIVE_FLOAT : H5T_NATIVE_INT64;
    hsize_t const width = name.size () > 9 && name.substr (name.size () - 9) == "/event_id" ? 3 : 1;
    int const rank = width > 1 ? 2 : 1;
    hsize_t size[2] = { 0, width };
    hsize_t const most[2] = { H5S_UNLIMITED, width }, chunk[2] = { 16384, width };
    std::string const group = name.substr (0, name.find ('/'));
    hid_t dataset;
    if (H5Lexists (fFile, group.c_str (), H5P_DEFAULT) > 0 &&
        H5Lexists (fFile, name.c_str (), H5P_DEFAULT) > 0) {
        dataset = H5Dopen2 (fFile, name.c_str (), H5P_DEFAULT);
    } else {
        hid_t const space = H5Screate_simple (rank, size, most);
        hid_t const create = H5Pcreate (H5P_DATASET_CREATE), link = H5Pcreate (H5P_LINK_CREATE);
        H5Pset_chunk (create, rank, chunk);
        H5Pset_shuffle (create);
        H5Pset_deflate (create, 1);
        H5Pset_create_intermediate_group (link, 1);
        dataset = H5Dcreate2 (fFile, name.c_str (), type, space, link, create, H5P_DEFAULT);
        H5Pclose (link);
        H5Pclose (create);
        H5Sclose (space);
    }
    Check (dataset >= 0, "cannot take dataset " + name);
    hid_t space = H5Dget_space (dataset);
    H5Sget_simple_extent_dims (space, size, nullptr);
    H5Sclose (space);
    hsize_t const start[2] = { size[0], 0 }, count[2] = { values.size () / width, width };
    size[0] += count[0];
    bool well = H5Dset_extent (dataset, size) >= 0;
    if (!values.empty ()) {
        space = H5Dget_space (dataset);
        H5Sselect_hyperslab (space, H5S_SELECT_SET, start, nullptr, count, nullptr);
        hid_t const memory = H5Screate_simple (rank, count, nullptr);
        well = well && H5Dwrite (dataset, type, memory, space, H5P_DEFAULT, values.data ()) >= 0;
        H5Sclose (memory);
        H5Sclose (space);
    }
    well = H5Dclose (dataset) >= 0 && well;
    Check (well, "cannot be written (" + name + "); is the disk full?");
}

template <class T> void WiremillDump::Flush (Columns<T> &columns)
{
    for (auto &[name, values] : columns) {
        Append (name, values);
        values.clear ();
    }
}

void WiremillDump::AddEventID (std::string const &table, EventID const &id)
{
    auto &column = fWhole[table + "/event_id"];
    column.insert (column.end (), id.begin (), id.end ());
}

// The map from channels to wires, once a file.
void WiremillDump::WriteMap ()
{
    auto const &readout = art::ServiceHandle<geo::WireReadout const> ()->Get ();
    for (raw::ChannelID_t channel = 0; channel < readout.Nchannels (); channel++) {
        if (!readout.HasChannel (channel))
            continue;
        for (auto const &wire : readout.ChannelToWire (channel)) {
            fWhole["wire_table/channel"].push_back (channel);
            fWhole["wire_table/cryostat"].push_back (wire.Cryostat);
            fWhole["wire_table/tpc"].push_back (wire.TPC);
            fWhole["wire_table/plane"].push_back (wire.Plane);
            fWhole["wire_table/wire"].push_back (wire.Wire);
        }
    }
    fMapWritten = true;
}

// Regions of interest; samples behind n_tick go. A table without rows exists, too.
void WiremillDump::AddWires (art::Event const &event, EventID const &id, size_t n_tick)
{
    auto const &status = art::ServiceHandle<lariov::ChannelStatusService const> ()->GetProvider ();
    for (auto const *column : { "roi_table/event_id", "roi_table/channel", "roi_table/tick",
                                "roi_table/n", "bad_channel/event_id", "bad_channel/channel" })
        fWhole[column];
    auto &adc = fReal["roi_value/adc"];
    size_t too_short = 0;
    auto const wires = event.getValidHandle<std::vector<recob::Wire>> (fWireLabel);
    for (auto const &wire : *wires) {
        if (!status.IsGood (wire.Channel ())) {
            AddEventID ("bad_channel", id);
            fWhole["bad_channel/channel"].push_back (wire.Channel ());
            continue;
        }
        if (wire.NSignal () < n_tick) {
            too_short++;
            continue;
        }
        for (auto const &range : wire.SignalROI ().get_ranges ()) {
            if (range.begin_index () >= n_tick || range.data ().empty ())
                continue;
            size_t const n = std::min (range.data ().size (), n_tick - range.begin_index ());
            AddEventID ("roi_table", id);
            fWhole["roi_table/channel"].push_back (wire.Channel ());
            fWhole["roi_table/tick"].push_back (static_cast<int64_t> (range.begin_index ()));
            fWhole["roi_table/n"].push_back (static_cast<int64_t> (n));
            adc.insert (adc.end (), range.data ().data (), range.data ().data () + n);
        }
    }
    if (too_short)
        mf::LogWarning ("WiremillDump") << "event " << id[0] << ":" << id[1] << ":" << id[2] << ": "
                                        << too_short << " wires have less than " << n_tick
                                        << " ticks and stay empty, as in EmTrackMichelIdTl";
}

// Hits, and the planes on which they are. `key` is the position in the product, the art key.
void WiremillDump::AddHits (art::Event const &event, EventID const &id)
{
    auto const &readout = art::ServiceHandle<geo::WireReadout const> ()->Get ();
    for (auto const *column : { "cryostat", "tpc", "plane" })
        fWhole[std::string ("hit_table/") + column], fWhole[std::string ("plane_table/") + column];
    for (auto const *column : { "hit_table/event_id", "hit_table/wire", "hit_table/key",
                                "plane_table/event_id", "plane_table/n_wire" })
        fWhole[column];
    auto &time = fReal["hit_table/time"];
    std::set<geo::PlaneID> planes;
    int64_t key = -1;
    auto const hits = event.getValidHandle<std::vector<recob::Hit>> (fHitModuleLabel);
    for (auto const &hit : *hits) {
        auto const wire = hit.WireID ();
        key++;
        if (!fViews.empty () &&
            std::find (fViews.begin (), fViews.end (), wire.Plane) == fViews.end ())
            continue;
        planes.insert (wire.planeID ());
        AddEventID ("hit_table", id);
        fWhole["hit_table/cryostat"].push_back (wire.Cryostat);
        fWhole["hit_table/tpc"].push_back (wire.TPC);
        fWhole["hit_table/plane"].push_back (wire.Plane);
        fWhole["hit_table/wire"].push_back (wire.Wire);
        fWhole["hit_table/key"].push_back (key);
        time.push_back (hit.PeakTime ());
    }
    for (auto const &plane : planes) {
        AddEventID ("plane_table", id);
        fWhole["plane_table/cryostat"].push_back (plane.Cryostat);
        fWhole["plane_table/tpc"].push_back (plane.TPC);
        fWhole["plane_table/plane"].push_back (plane.Plane);
        fWhole["plane_table/n_wire"].push_back (readout.Nwires (plane));
    }
}

void WiremillDump::analyze (art::Event const &event)
{
    auto const clock = art::ServiceHandle<detinfo::DetectorClocksService const> ()->DataFor (event);
    auto const detector =
        art::ServiceHandle<detinfo::DetectorPropertiesService const> ()->DataFor (event, clock);
    EventID const id = { event.run (), event.subRun (), event.id ().event () };
    if (!fMapWritten)
        WriteMap ();
    AddEventID ("event_table", id);
    fWhole["event_table/n_tick"].push_back (detector.NumberTimeSamples ());
    fReal["event_table/tick_us"].push_back (static_cast<float> (sampling_rate (clock) * 1e-3));
    fReal["event_table/trigger_offset"].push_back (static_cast<float> (trigger_offset (clock)));
    fReal["event_table/tau_us"].push_back (static_cast<float> (detector.ElectronLifetime ()));
    AddWires (event, id, detector.NumberTimeSamples ());
    AddHits (event, id);
    Flush (fWhole);
    Flush (fReal);
}

void WiremillDump::endJob ()
{
    bool const well = H5Fclose (fFile) >= 0;
    fFile = -1;
    Check (well, "cannot be closed; is the disk full?");
    Check (std::rename (fPartName.c_str (), fOutputName.c_str ()) == 0,
           "cannot be renamed to " + fOutputName);
    mf::LogInfo ("WiremillDump") << "wrote " << fOutputName << "; score it by: wiremill run --model"
                                 << " MODEL.wmm --spec SPEC --input " << fOutputName
                                 << " --output out";
}

} // namespace wiremill
DEFINE_ART_MODULE (wiremill::WiremillDump)
