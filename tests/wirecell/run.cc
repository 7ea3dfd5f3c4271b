/* run.cc - calls WiremillService as a node of Wire-Cell does: through its factory and interfaces.

   usage: run KEY=VALUE... -- N,C,H,W IN.f4 THREADS     the answers of so many threads; prints the
                                                        shape, then float32 of the first thread
   With BEND=float64, order, bytes, none or nan the set is made wrong.  */
#include "ops/wirecell/WiremillService.cxx"

#include <cmath>
#include <thread>

using namespace WireCell;

// A tensor in Fortran order, or of fewer bytes than its shape has.
struct bent_t : Aux::SimpleTensor {
    using Aux::SimpleTensor::SimpleTensor;
    order_t order () const override { return is_order ? order_t{0, 1, 2, 3} : order_t{3, 2, 1, 0}; }
    size_t size () const override { return SimpleTensor::size () - (is_short ? 4 : 0); }
    bool is_order = false, is_short = false;
};

static ITensorSet::pointer set_of (const ITensor::shape_t &shape, std::vector<float> values)
{
    const std::string bend = std::getenv ("BEND") ? std::getenv ("BEND") : "";
    ITensor::vector tensors;
    if (bend == "float64") {
        std::vector<double> wide (values.begin (), values.end ());
        tensors.push_back (std::make_shared<Aux::SimpleTensor> (shape, wide.data ()));
    } else if (bend != "none") {
        if (bend == "nan")
            values.back () = std::nanf ("");
        auto tensor = std::make_shared<bent_t> (shape, values.data ());
        tensor->is_order = bend == "order";
        tensor->is_short = bend == "bytes";
        tensors.push_back (tensor);
    }
    return std::make_shared<Aux::SimpleTensorSet> (17, Configuration (),
                                                   std::make_shared<const ITensor::vector> (tensors));
}

static std::vector<float> floats_of (const char *path, size_t n)
{
    std::vector<float> values (n);
    FILE *file = std::fopen (path, "rb");
    if (!file || std::fread (values.data (), sizeof (float), n, file) != n)
        std::fprintf (stderr, "%s: too short\n", path), std::exit (2);
    std::fclose (file);
    return values;
}

int main (int argc, char **argv)
{
    int i = 1;
    auto service = std::static_pointer_cast<Wiremill::WiremillService> (
        makers ().at ("WiremillService") ());
    IConfigurable &configurable = *service;
    const ITensorForward &forwarding = *service;
    Configuration cfg = configurable.default_configuration ();
    for (; i < argc && std::strcmp (argv[i], "--"); i++) {
        const std::string word = argv[i];
        cfg[word.substr (0, word.find ('='))] = word.substr (word.find ('=') + 1);
    }
    if (argc - i != 4)
        return 2;
    ITensor::shape_t shape;
    size_t n = 1;
    for (const char *at = argv[i + 1]; *at; at += *at == ',')
        shape.push_back (std::strtoul (at, const_cast<char **> (&at), 10)), n *= shape.back ();
    try {
        configurable.configure (cfg);
        configurable.configure (cfg); // a second time changes nothing
        const auto set = set_of (shape, floats_of (argv[i + 2], n));
        std::vector<ITensorSet::pointer> answers (std::strtoul (argv[i + 3], nullptr, 10));
        std::vector<std::thread> threads;
        for (auto &answer : answers)
            threads.emplace_back ([&] {
                try {
                    answer = forwarding.forward (set);
                } catch (const std::exception &why) {
                    std::fprintf (stderr, "thrown: %s\n", why.what ());
                    std::exit (1);
                }
            });
        for (auto &thread : threads)
            thread.join ();
        if (!answers[0])
            return std::fprintf (stderr, "no answer\n"), 3;
        const auto &first = *answers[0]->tensors ()->front ();
        for (const auto &answer : answers) {
            const auto &tensor = *answer->tensors ()->front ();
            if (answer->ident () != 17 || answer->tensors ()->size () != 1 ||
                tensor.size () != first.size () ||
                std::memcmp (tensor.data (), first.data (), first.size ()))
                return std::fprintf (stderr, "threads have different answers\n"), 4;
        }
        for (size_t s : first.shape ())
            std::fprintf (stderr, "%zu ", s);
        std::fprintf (stderr, "shape\n");
        std::fwrite (first.data (), 1, first.size (), stdout);
    } catch (const std::exception &why) {
        std::fprintf (stderr, "thrown: %s\n", why.what ());
        return 1;
    }
    return 0;
}
