/* PointIdAlgWiremill_tool.cc - an art tool of larrecodnn: scores patches by libwiremill.

   EmTrackMichelIdTl makes it where its table PointIdAlg has `tool_type: "PointIdAlgWiremill"`. It
   takes the other tools' configuration as it is, without keys of its own: that table is strict.

   NNetModelFile     the model: .wmm (opens at once), .onnx or .pb; found along FW_SEARCH_PATH
   NNetOutputs       labels of the scores, in the model's order; as many as the model has
   PatchSizeW, D     wires and drift bins of a patch, as the model takes them
   TritonURL         left out or "": scores are computed in this process; all else is refused
   TritonModel...    not used

   The base class cuts the patches and scales their pixels; predictIdVectors is not virtual, so that
   this tool sees dense patches. Several threads may call Run of one tool at once. A patch with a
   NaN or an infinity has NaN scores, and a warning counts them. Every other failure is an
   exception. Written from larrecodnn's public interface; not yet run inside art (README.md).  */
#include "art/Utilities/ToolMacros.h"
#include "cetlib/search_path.h"
#include "cetlib_except/exception.h"
#include "fhiclcpp/types/Table.h"
#include "larrecodnn/ImagePatternAlgs/ToolInterfaces/IPointIdAlg.h"
#include "messagefacility/MessageLogger/MessageLogger.h"

#include <wiremill.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace PointIdAlgTools
{

class PointIdAlgWiremill : public IPointIdAlg
{
  public:
    explicit PointIdAlgWiremill (fhicl::Table<Config> const &table);

    std::vector<float> Run (std::vector<std::vector<float>> const &inp2d) const override;
    std::vector<std::vector<float>> Run (std::vector<std::vector<std::vector<float>>> const &inps,
                                         int samples = -1) const override;

  private:
    using Patch = std::vector<std::vector<float>>;
    struct Close {
        void operator() (wiremill_t *model) const
        {
            wiremill_close (&model);
        }
    };
    void CheckModel (std::string const &file) const;
    std::vector<std::vector<float>> Score (Patch const *patches, size_t n) const;

    std::unique_ptr<wiremill_t, Close> fModel;
};

static std::string findModel (std::string const &name)
{
    std::string found;
    cet::search_path const path ("FW_SEARCH_PATH");
    return path.find_file (name, found) ? found : name;
}

PointIdAlgWiremill::PointIdAlgWiremill (fhicl::Table<Config> const &table)
    : img::DataProviderAlg (table ())
{
    fNNetOutputs = table ().NNetOutputs ();
    fPatchSizeW = table ().PatchSizeW ();
    fPatchSizeD = table ().PatchSizeD ();
    fCurrentWireIdx = 99999; // no patch is buffered
    fCurrentScaledDrift = 99999;

    // The key has a default, localhost:8001: only one that is written counts.
    if (table.get_PSet ().has_key ("TritonURL") && !table ().TritonURL ().empty ())
        throw cet::exception ("PointIdAlgWiremill")
            << "TritonURL is \"" << table ().TritonURL ()
            << "\", but this tool computes in the process of lar and asks no server; write"
            << " TritonURL: \"\" or leave the key out. PointIdAlgTriton asks a server.\n";
    std::string name;
    if (!table ().NNetModelFile (name) || name.empty ())
        throw cet::exception ("PointIdAlgWiremill")
            << "NNetModelFile is missing; write the path of a .wmm, .onnx or .pb there.\n";

    wiremill_error_t error;
    std::string const file = findModel (name);
    fModel.reset (wiremill_open (file.c_str (), nullptr, &error));
    if (!fModel)
        throw cet::exception ("PointIdAlgWiremill") << error.text << "\n";
    CheckModel (file);
    mf::LogInfo ("PointIdAlgWiremill") << file << ", libwiremill " << wiremill_version ()
                                       << ", engine " << wiremill_signature (fModel.get ());
    resizePatch ();
}

// The configuration must describe this model: a wrong order of labels would not be noticed later.
void PointIdAlgWiremill::CheckModel (std::string const &file) const
{
    uint32_t dim[WIREMILL_DIMS_MAX];
    if (wiremill_shape (fModel.get (), dim) != 2 || dim[0] != fPatchSizeW ||
        dim[1] != fPatchSizeD) {
        cet::exception refusal ("PointIdAlgWiremill");
        refusal << file << " takes patches of";
        for (uint32_t i = 0, n = wiremill_shape (fModel.get (), dim); i < n; i++)
            refusal << (i ? " x " : " ") << dim[i];
        throw refusal << ", but PatchSizeW is " << fPatchSizeW << " and PatchSizeD " << fPatchSizeD
                      << "; write the model's (wires, drift bins) there.\n";
    }
    size_t const n = wiremill_n_output (fModel.get ());
    std::vector<std::string> labels;
    for (size_t i = 0; i < n; i++)
        if (const char *label = wiremill_label (fModel.get (), i)) // an image has none
            labels.emplace_back (label);
    bool wrong = fNNetOutputs.size () != n;
    for (size_t i = 0; i < n && !wrong; i++)
        wrong =
            labels[i] != fNNetOutputs[i] && // a name of one's own is fine, another score's is not
            std::find (labels.begin (), labels.end (), fNNetOutputs[i]) != labels.end ();
    if (!wrong)
        return;
    cet::exception refusal ("PointIdAlgWiremill");
    refusal << "NNetOutputs does not fit " << file << ", whose scores are, in this order:";
    for (auto const &label : labels)
        refusal << " " << label;
    throw refusal << ". Write NNetOutputs in that order.\n";
}

std::vector<std::vector<float>> PointIdAlgWiremill::Score (Patch const *patches, size_t n) const
{
    size_t const n_value = fPatchSizeW * fPatchSizeD, n_output = wiremill_n_output (fModel.get ());
    std::vector<float> dense, scores (n * n_output);
    std::vector<uint8_t> status (n);
    dense.reserve (n * n_value);
    for (size_t i = 0; i < n; i++) {
        for (auto const &wire : patches[i])
            if (wire.size () == fPatchSizeD)
                dense.insert (dense.end (), wire.begin (), wire.end ());
        if (patches[i].size () != fPatchSizeW || dense.size () != (i + 1) * n_value)
            throw cet::exception ("PointIdAlgWiremill")
                << "patch " << i << " is not of " << fPatchSizeW << " wires with " << fPatchSizeD
                << " drift bins each, as PatchSizeW and PatchSizeD promise.\n";
    }
    wiremill_error_t error;
    if (wiremill_score (fModel.get (), dense.data (), n, n_value, scores.data (), status.data (),
                        &error))
        throw cet::exception ("PointIdAlgWiremill") << error.text << "\n";
    size_t const bad =
        n - static_cast<size_t> (std::count (status.begin (), status.end (), WIREMILL_SCORED));
    if (bad)
        mf::LogWarning ("PointIdAlgWiremill")
            << bad << " of " << n << " patches have NaN scores; the first: "
            << wiremill_status_text (*std::find_if (status.begin (), status.end (), [] (uint8_t s) {
                   return s != WIREMILL_SCORED;
               }));
    std::vector<std::vector<float>> rows (n);
    for (size_t i = 0; i < n; i++)
        rows[i].assign (&scores[i * n_output], &scores[i * n_output] + n_output);
    return rows;
}

std::vector<float> PointIdAlgWiremill::Run (std::vector<std::vector<float>> const &inp2d) const
{
    return Score (&inp2d, 1).front ();
}

// samples: how many of the first patches; -1, or more than there are: all.
std::vector<std::vector<float>>
PointIdAlgWiremill::Run (std::vector<std::vector<std::vector<float>>> const &inps,
                         int samples) const
{
    size_t const n =
        samples < 0 ? inps.size () : std::min (inps.size (), static_cast<size_t> (samples));
    return n ? Score (inps.data (), n) : std::vector<std::vector<float>> ();
}

} // namespace PointIdAlgTools
DEFINE_ART_CLASS_TOOL (PointIdAlgTools::PointIdAlgWiremill)
