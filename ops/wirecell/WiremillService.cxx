/* WiremillService.cxx - a component of Wire-Cell: scores tensors by libwiremill.

   WiremillService takes the place of TorchService or TritonService where a node asks for an
   ITensorForward, as DNNROIFinding does. Its configuration:

   broker       "tcp://HOST:PORT", "file:///DIR/endpoint.json": workers of a broker score
   join_file    the producer's key of that broker; "": WM_JOIN_FILE, or none
   patience     seconds without a broker before forward () fails (60)
   model        a .wmm, .onnx or .pb, scored in this process; give either broker or model
   threads      of a model in this process (1)
   engine, precision   as `wiremill run` has them ("auto", "fp32"); of a model in this process
   soft_fail    true: a failure is logged, and its answer is zeros, as TritonService gives them.
                false, the default: forward () throws, so that no zero is taken for an answer

   Written from Wire-Cell's public interface; not yet run inside Wire-Cell (README.md).  */
#include "WireCellAux/Logger.h"
#include "WireCellAux/SimpleTensor.h"
#include "WireCellAux/SimpleTensorSet.h"
#include "WireCellIface/IConfigurable.h"
#include "WireCellIface/ITensorForward.h"
#include "WireCellUtil/Exceptions.h"
#include "WireCellUtil/NamedFactory.h"
#include "WireCellUtil/Persist.h"

#include <wiremill.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace WireCell::Wiremill
{

class WiremillService : public Aux::Logger, public ITensorForward, public IConfigurable
{
  public:
    WiremillService ();

    void configure (const WireCell::Configuration &cfg) override;
    WireCell::Configuration default_configuration () const override;

    /* The first tensor of the set, float32 in C order, (N, the model's shape), becomes a set of one
       tensor: (N, C, H, W) where the scores fill the planes of the input, else (N, scores, 1, 1).
       Any number of threads may call it at once.  */
    ITensorSet::pointer forward (const ITensorSet::pointer &input) const override;

  private:
    struct Close {
        void operator() (wiremill_t *model) const
        {
            wiremill_close (&model);
        }
        void operator() (wiremill_client_t *client) const
        {
            wiremill_client_close (&client);
        }
    };
    void open (const WireCell::Configuration &cfg);
    std::string unfit (const ITensor &tensor) const;
    std::string score (const ITensor &tensor, size_t n, std::vector<float> &scores) const;

    std::unique_ptr<wiremill_t, Close> m_model;
    std::unique_ptr<wiremill_client_t, Close> m_client;
    std::vector<size_t> m_shape; // of a row, without dimensions of size 1
    size_t m_n_value = 0, m_n_output = 0;
    bool m_soft_fail = false;
};

static std::string listed (const std::vector<size_t> &shape)
{
    std::string text;
    for (size_t n : shape)
        text += (text.empty () ? "" : " x ") + std::to_string (n);
    return text.empty () ? "1" : text;
}

WiremillService::WiremillService () : Aux::Logger ("WiremillService", "wiremill") {}

WireCell::Configuration WiremillService::default_configuration () const
{
    Configuration cfg;
    cfg["broker"] = cfg["join_file"] = cfg["model"] = "";
    cfg["patience"] = 60;
    cfg["threads"] = 1;
    cfg["engine"] = "auto";
    cfg["precision"] = "fp32";
    cfg["soft_fail"] = false;
    return cfg;
}

void WiremillService::configure (const WireCell::Configuration &cfg)
{
    m_soft_fail = get<bool> (cfg, "soft_fail", false);
    if (!m_model && !m_client)
        open (cfg);
}

void WiremillService::open (const WireCell::Configuration &cfg)
{
    const auto broker = get<std::string> (cfg, "broker", ""),
               join_file = get<std::string> (cfg, "join_file", ""),
               model = get<std::string> (cfg, "model", "");
    if (broker.empty () == model.empty ())
        THROW (ValueError () << errmsg{
                   "WiremillService: give either broker or model, and the other as \"\""});
    wiremill_error_t error;
    uint32_t dim[WIREMILL_DIMS_MAX], n_dim;
    if (!broker.empty ()) {
        wiremill_connect_options_t options = {};
        options.size = sizeof options;
        options.join_file = join_file.empty () ? nullptr : join_file.c_str ();
        options.patience_ms = static_cast<uint32_t> (get<int> (cfg, "patience", 60)) * 1000;
        m_client.reset (wiremill_connect (broker.c_str (), &options, &error));
        if (!m_client)
            THROW (RuntimeError () << errmsg{error.text});
        m_n_value = wiremill_client_n_value (m_client.get ());
        m_n_output = wiremill_client_n_output (m_client.get ());
        n_dim = wiremill_client_shape (m_client.get (), dim);
    } else {
        const auto engine = get<std::string> (cfg, "engine", "auto"),
                   precision = get<std::string> (cfg, "precision", "fp32");
        const auto found = Persist::resolve (model); // along WIRECELL_PATH
        wiremill_options_t options = {};
        options.size = sizeof options;
        options.engine = engine.c_str ();
        options.precision = precision.c_str ();
        options.threads = static_cast<uint32_t> (get<int> (cfg, "threads", 1));
        m_model.reset (
            wiremill_open (found.empty () ? model.c_str () : found.c_str (), &options, &error));
        if (!m_model)
            THROW (RuntimeError () << errmsg{error.text});
        m_n_value = wiremill_n_value (m_model.get ());
        m_n_output = wiremill_n_output (m_model.get ());
        n_dim = wiremill_shape (m_model.get (), dim);
    }
    m_shape.assign (dim, dim + n_dim);
    log->info ("{}: takes {}, gives {} scores", broker.empty () ? model : broker, listed (m_shape),
               m_n_output);
}

// Why the tensor is not what the model takes; "": it is.
std::string WiremillService::unfit (const ITensor &tensor) const
{
    const auto shape = tensor.shape ();
    std::vector<size_t> row;
    for (size_t i = 1; i < shape.size (); i++)
        if (shape[i] != 1)
            row.push_back (shape[i]);
    if (shape.empty () || shape[0] == 0 || row != m_shape)
        return "the tensor is " + listed (shape) + "; the model takes N x " + listed (m_shape);
    if (tensor.element_type () != typeid (float))
        return "the elements of the tensor are no float32";
    const auto order = tensor.order (); // empty: C order
    if (!std::is_sorted (order.begin (), order.end (), std::greater<size_t> ()))
        return "the tensor is not in C order";
    if (tensor.size () != shape[0] * m_n_value * sizeof (float))
        return "the tensor has " + std::to_string (tensor.size ()) + " bytes; its shape has " +
               std::to_string (shape[0] * m_n_value * sizeof (float));
    return "";
}

// Fills in n rows of scores, zeros where a row has none. Returns why some have none; "": all do.
std::string WiremillService::score (const ITensor &tensor, size_t n,
                                    std::vector<float> &scores) const
{
    const float *const patches = reinterpret_cast<const float *> (tensor.data ());
    std::vector<uint8_t> status (n);
    wiremill_error_t error;
    const wiremill_fault_t fault =
        m_client ? wiremill_client_score (m_client.get (), patches, n, m_n_value, scores.data (),
                                          status.data (), &error)
                 : wiremill_score (m_model.get (), patches, n, m_n_value, scores.data (),
                                   status.data (), &error);
    std::string why = fault == WIREMILL_OK ? "" : error.text;
    for (size_t i = 0; i < n; i++) {
        if (fault == WIREMILL_OK && status[i] == WIREMILL_SCORED)
            continue;
        std::fill_n (scores.begin () + static_cast<ptrdiff_t> (i * m_n_output), m_n_output, 0.f);
        if (why.empty ())
            why = "row " + std::to_string (i) + " of " + std::to_string (n) +
                  " has no scores: " + wiremill_status_text (status[i]);
    }
    return why;
}

ITensorSet::pointer WiremillService::forward (const ITensorSet::pointer &input) const
{
    const auto tensors = input ? input->tensors () : nullptr;
    const auto tensor = tensors && !tensors->empty () ? tensors->front () : nullptr;
    if (!m_model && !m_client)
        THROW (RuntimeError () << errmsg{"WiremillService: forward before configure"});
    std::string why = tensor ? unfit (*tensor) : "there is no tensor in the set";
    if (!tensor && m_soft_fail) {
        log->error ("{}", why);
        return nullptr; // of what shape zeros would be is not known
    }
    const auto shape = tensor ? tensor->shape () : ITensor::shape_t ();
    const size_t n = shape.empty () ? 0 : shape[0];
    std::vector<float> scores (n * m_n_output);
    if (why.empty ())
        why = score (*tensor, n, scores);
    if (!why.empty ()) {
        if (!m_soft_fail)
            THROW (RuntimeError () << errmsg{"WiremillService: " + why});
        log->error ("{}; zeros are given (soft_fail)", why);
    }
    const size_t pixels = shape.size () == 4 ? shape[2] * shape[3] : 0;
    ITensor::shape_t to = {n, m_n_output, 1, 1};
    if (pixels && m_n_output % pixels == 0)
        to = {n, m_n_output / pixels, shape[2], shape[3]};
    auto answer = std::make_shared<Aux::SimpleTensor> (to, scores.data ());
    return std::make_shared<Aux::SimpleTensorSet> (
        input->ident (), Configuration (),
        ITensor::shared_vector (new ITensor::vector{answer}));
}

} // namespace WireCell::Wiremill
WIRECELL_FACTORY (WiremillService, WireCell::Wiremill::WiremillService, WireCell::ITensorForward,
                  WireCell::IConfigurable)
