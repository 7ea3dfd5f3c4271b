/* larsoft.h - a stand-in for LArSoft: hits, wires, geometry, clocks, MVA products, the tool's base.

   Written from the public interface, as far as ops/art uses it. The detector has one TPC of two
   planes with 60 wires each; channel c is wire c % 60 of plane c / 60, and channel 7 is bad. Pixels
   are set by the test: this base class does not make planes of wires.  */
#ifndef WM_STANDIN_LARSOFT_H
#define WM_STANDIN_LARSOFT_H

#include "tests/art/art.h"

#include <array>
#include <tuple>

namespace raw
{
using ChannelID_t = unsigned int;
}
namespace geo
{
struct PlaneID {
    unsigned int Cryostat = 0, TPC = 0, Plane = 0;
    bool operator<(PlaneID const &o) const
    {
        return std::tie (Cryostat, TPC, Plane) < std::tie (o.Cryostat, o.TPC, o.Plane);
    }
};
struct WireID : PlaneID {
    unsigned int Wire = 0;
    PlaneID planeID () const
    {
        return *this;
    }
};
class WireReadoutGeom
{
  public:
    unsigned int Nchannels () const
    {
        return 120;
    }
    bool HasChannel (raw::ChannelID_t channel) const
    {
        return channel < Nchannels ();
    }
    std::vector<WireID> ChannelToWire (raw::ChannelID_t channel) const
    {
        return { WireID{ { 0, 0, channel / 60 }, channel % 60 } };
    }
    unsigned int Nwires (PlaneID const &) const
    {
        return 60;
    }
};
class WireReadout
{
    WireReadoutGeom geom_;

  public:
    WireReadoutGeom const &Get () const
    {
        return geom_;
    }
};
} // namespace geo

namespace detinfo
{
class DetectorClocksData
{
};
inline double sampling_rate (DetectorClocksData const &) // ns
{
    return 500;
}
inline int trigger_offset (DetectorClocksData const &)
{
    return 500;
}
class DetectorClocksService
{
  public:
    DetectorClocksData DataFor (art::Event const &) const
    {
        return {};
    }
};
class DetectorPropertiesData
{
  public:
    unsigned int NumberTimeSamples () const
    {
        return 6000;
    }
    double ElectronLifetime () const
    {
        return 10000;
    }
};
class DetectorPropertiesService
{
  public:
    DetectorPropertiesData DataFor (art::Event const &, DetectorClocksData const &) const
    {
        return {};
    }
};
} // namespace detinfo

namespace lariov
{
class ChannelStatusProvider
{
  public:
    bool IsGood (raw::ChannelID_t channel) const
    {
        return channel != 7;
    }
};
class ChannelStatusService
{
    ChannelStatusProvider provider_;

  public:
    ChannelStatusProvider const &GetProvider () const
    {
        return provider_;
    }
};
} // namespace lariov

namespace recob
{
class Hit
{
    geo::WireID wire_;
    float time_;

  public:
    Hit (geo::WireID const &wire, float time) : wire_ (wire), time_ (time)
    {
    }
    geo::WireID const &WireID () const
    {
        return wire_;
    }
    float PeakTime () const
    {
        return time_;
    }
};
class Wire
{
  public:
    struct Range {
        size_t first;
        std::vector<float> values;
        size_t begin_index () const
        {
            return first;
        }
        std::vector<float> const &data () const
        {
            return values;
        }
    };
    struct RegionsOfInterest_t {
        std::vector<Range> ranges;
        std::vector<Range> const &get_ranges () const
        {
            return ranges;
        }
    };
    Wire (raw::ChannelID_t channel, size_t n_tick, std::vector<Range> const &ranges)
        : channel_ (channel), n_tick_ (n_tick), signal_{ ranges }
    {
    }
    raw::ChannelID_t Channel () const
    {
        return channel_;
    }
    size_t NSignal () const
    {
        return n_tick_;
    }
    RegionsOfInterest_t const &SignalROI () const
    {
        return signal_;
    }

  private:
    raw::ChannelID_t channel_;
    size_t n_tick_;
    RegionsOfInterest_t signal_;
};
} // namespace recob

// lardata's writer: the descriptions have the instance NAME, the vectors of a type NAME + its name.
namespace anab
{
template <size_t N> using FeatureVector = std::array<float, N>;
template <size_t N> struct MVADescription {
    std::string tag, instance;
    std::vector<std::string> names;
};
template <size_t N> class MVAWriter
{
    art::ProducesCollector &collector_;
    std::string name_;
    std::vector<std::vector<FeatureVector<N>>> vectors_;
    std::vector<MVADescription<N>> descriptions_;
    template <class T> static std::string TypeName ()
    {
        return std::is_same_v<T, recob::Hit> ? "recobHit" : "";
    }

  public:
    MVAWriter (art::ProducesCollector &collector, char const *name)
        : collector_ (collector), name_ (name)
    {
    }
    template <class T> void produces_using ()
    {
        collector_.produces<std::vector<MVADescription<N>>> (name_);
        collector_.produces<std::vector<FeatureVector<N>>> (name_ + TypeName<T> ());
    }
    template <class T>
    size_t initOutputs (art::InputTag const &tag, size_t n, std::vector<std::string> const &names)
    {
        descriptions_.push_back ({ tag.encode (), name_ + TypeName<T> (), names });
        vectors_.emplace_back (n);
        return vectors_.size () - 1;
    }
    void setOutput (size_t id, size_t key, std::array<float, N> const &values)
    {
        vectors_.at (id).at (key) = values;
    }
    void saveOutputs (art::Event &event)
    {
        using Vectors = std::vector<FeatureVector<N>>;
        for (size_t i = 0; i < vectors_.size (); i++)
            event.put (std::make_unique<Vectors> (vectors_[i]), descriptions_[i].instance);
        event.put (std::make_unique<std::vector<MVADescription<N>>> (descriptions_), name_);
        vectors_.clear ();
        descriptions_.clear ();
    }
};
} // namespace anab

namespace img
{
class DataProviderAlg
{
  public:
    struct Config {
        using Name = fhicl::Name;
        using Comment = fhicl::Comment;
        struct Calorimetry {
            fhicl::Sequence<double> CalAmpConstants{ Name ("CalAmpConstants"), Comment ("") };
        };
        fhicl::Table<Calorimetry> CalorimetryAlg{ Name ("CalorimetryAlg"), Comment ("") };
        fhicl::Atom<float> AdcMax{ Name ("AdcMax"), Comment ("") };
        fhicl::Atom<float> AdcMin{ Name ("AdcMin"), Comment ("") };
        fhicl::Atom<float> OutMax{ Name ("OutMax"), Comment ("") };
        fhicl::Atom<float> OutMin{ Name ("OutMin"), Comment ("") };
        fhicl::Atom<bool> CalibrateAmpl{ Name ("CalibrateAmpl"), Comment ("") };
        fhicl::Atom<bool> CalibrateLifetime{ Name ("CalibrateLifetime"), Comment ("") };
        fhicl::Atom<unsigned int> DriftWindow{ Name ("DriftWindow"), Comment ("") };
        fhicl::Atom<std::string> DownscaleFn{ Name ("DownscaleFn"), Comment ("") };
        fhicl::Atom<bool> DownscaleFullView{ Name ("DownscaleFullView"), Comment ("") };
        fhicl::Sequence<float> BlurKernel{ Name ("BlurKernel"), Comment ("") };
        fhicl::Atom<float> NoiseSigma{ Name ("NoiseSigma"), Comment ("") };
        fhicl::Atom<float> CoherentSigma{ Name ("CoherentSigma"), Comment ("") };
    };
    DataProviderAlg (Config const &config) : fDriftWindow (config.DriftWindow ())
    {
    }
    virtual ~DataProviderAlg () = default;
    std::vector<std::vector<float>> fWireDriftData; // set by the test

  protected:
    size_t fDriftWindow;
};
} // namespace img

namespace PointIdAlgTools
{
class IPointIdAlg : virtual public img::DataProviderAlg
{
  public:
    struct Config : public img::DataProviderAlg::Config {
        fhicl::OptionalAtom<std::string> NNetModelFile{ Name ("NNetModelFile"), Comment ("") };
        fhicl::Sequence<std::string> NNetOutputs{ Name ("NNetOutputs"), Comment ("") };
        fhicl::OptionalSequence<std::string> NNetOutputPattern{ Name ("NNetOutputPattern"),
                                                                Comment ("") };
        fhicl::Atom<unsigned int> PatchSizeW{ Name ("PatchSizeW"), Comment ("") };
        fhicl::Atom<unsigned int> PatchSizeD{ Name ("PatchSizeD"), Comment ("") };
        fhicl::OptionalAtom<std::string> ToolType{ Name ("tool_type"), Comment ("") };
        fhicl::Atom<std::string> TritonModelName{ Name ("TritonModelName"), Comment (""), "mycnn" };
        fhicl::Atom<std::string> TritonURL{ Name ("TritonURL"), Comment (""), "localhost:8001" };
        fhicl::Atom<std::string> TritonModelVersion{ Name ("TritonModelVersion"), Comment (""),
                                                     "" };
        fhicl::Atom<bool> TritonVerbose{ Name ("TritonVerbose"), Comment (""), false };
    };
    virtual ~IPointIdAlg () noexcept = default;
    virtual std::vector<float> Run (std::vector<std::vector<float>> const &inp2d) const = 0;
    virtual std::vector<std::vector<float>>
    Run (std::vector<std::vector<std::vector<float>>> const &inps, int samples = -1) const = 0;

    // One patch, by the buffer of resizePatch; a second hit in the same cell reuses it.
    std::vector<float> predictIdVector (unsigned int wire, float drift)
    {
        auto const bin = static_cast<size_t> (drift / static_cast<float> (fDriftWindow));
        if (wire != fCurrentWireIdx || bin != fCurrentScaledDrift)
            for (size_t w = 0; w < fPatchSizeW; w++)
                for (size_t d = 0; d < fPatchSizeD; d++)
                    fWireDriftPatch.at (w).at (d) = fWireDriftData.at (wire + w - fPatchSizeW / 2)
                                                        .at (bin + d - fPatchSizeD / 2);
        fCurrentWireIdx = wire;
        fCurrentScaledDrift = bin;
        return Run (fWireDriftPatch);
    }
    std::vector<std::string> const &outputLabels () const
    {
        return fNNetOutputs;
    }

  protected:
    std::vector<std::string> fNNetOutputs;
    size_t fPatchSizeW = 0, fPatchSizeD = 0;
    std::vector<std::vector<float>> fWireDriftPatch;
    size_t fCurrentWireIdx = 0, fCurrentScaledDrift = 0;
    void resizePatch ()
    {
        fWireDriftPatch.assign (fPatchSizeW, std::vector<float> (fPatchSizeD));
    }
};
} // namespace PointIdAlgTools
#endif
