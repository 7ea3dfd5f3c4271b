/* run.cc - runs ops/art against the stand-ins of art and LArSoft.

   run patches FILE SIDE N          writes N seeded patches of SIDE x SIDE, float32
   run scores FCL PATCHES THREADS   scores them by table `tool` of FCL, 256 a call, each thread with
                                    a tool of its own; prints a line of scores for each patch
   run module FCL NAME EVENTS       runs the module of table NAME over made-up events 1 to EVENTS;
                                    prints the products of a producer; of an analyzer's events the
                                    regions and hits. Hit 11 of event 2 is on no wire
   What is thrown goes to stderr, with exit code 1.  */
#include "tests/art/larsoft.h"

#include "tests/art/fhicl.cc"
#include "ops/art/PointIdAlgWiremill_tool.cc"
#include "ops/art/WiremillDump_module.cc"
#include "ops/art/WiremillMerge_module.cc"

#include <cmath>
#include <cstring>
#include <exception>
#include <cstdio>
#include <limits>
#include <thread>

namespace
{
using Patch = std::vector<std::vector<float>>;
using Scores = std::vector<std::vector<float>>;
using Tool = PointIdAlgTools::IPointIdAlg;

uint64_t next_random = 1;
float Random (float below)
{
    next_random = next_random * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float> (next_random >> 40) / 16777216.0f * below;
}

void Check (bool well, char const *what)
{
    if (!well)
        throw cet::exception ("run") << "FAILED: " << what;
}

std::vector<char> ReadFile (std::string const &name)
{
    std::vector<char> bytes;
    char block[16384];
    FILE *file = std::fopen (name.c_str (), "rb");
    Check (file, "a file is opened");
    for (size_t n; (n = std::fread (block, 1, sizeof block, file)) > 0;)
        bytes.insert (bytes.end (), block, block + n);
    std::fclose (file);
    return bytes;
}
fhicl::ParameterSet Fcl (std::string const &file)
{
    auto const bytes = ReadFile (file);
    return fhicl::ParameterSet::make (std::string (bytes.begin (), bytes.end ()));
}

void WritePatches (std::string const &name, size_t side, size_t n)
{
    FILE *file = std::fopen (name.c_str (), "wb");
    Check (file, "a file is created");
    for (size_t i = 0; i < n * side * side; i++) {
        float const pixel = Random (4) < 1 ? Random (15) - 5 : 0;
        std::fwrite (&pixel, sizeof pixel, 1, file);
    }
    Check (std::fclose (file) == 0, "patches are written");
}

std::vector<Patch> ReadPatches (std::string const &name, size_t side)
{
    auto const bytes = ReadFile (name);
    std::vector<Patch> patches (bytes.size () / (side * side * sizeof (float)),
                                Patch (side, std::vector<float> (side)));
    char const *at = bytes.data ();
    for (auto &patch : patches)
        for (auto &wire : patch) {
            std::memcpy (wire.data (), at, side * sizeof (float));
            at += side * sizeof (float);
        }
    return patches;
}

bool SameBits (std::vector<float> const &a, std::vector<float> const &b)
{
    return a.size () == b.size () &&
           std::memcmp (a.data (), b.data (), a.size () * sizeof (float)) == 0;
}

// As EmTrackMichelIdTl calls it: up to 256 patches at once, in a loop.
Scores Loop (Tool const &tool, std::vector<Patch> const &patches)
{
    Scores all;
    for (size_t i = 0; i < patches.size (); i += 256) {
        std::vector<Patch> const some (patches.begin () + static_cast<long> (i),
                                       patches.begin () +
                                           static_cast<long> (std::min (i + 256, patches.size ())));
        auto const scores = tool.Run (some);
        all.insert (all.end (), scores.begin (), scores.end ());
    }
    return all;
}

// The two forms of Run, `samples`, the buffer of the base class, and patches that nobody can score.
void CheckForms (Tool &tool, std::vector<Patch> const &patches, Scores const &scores)
{
    for (size_t i = 0; i < 20; i++)
        Check (SameBits (tool.Run (patches[i]), scores[i]), "one patch has the bits of 256");
    auto const three = tool.Run (patches, 3);
    Check (three.size () == 3 && SameBits (three[2], scores[2]), "samples: the first three");
    Check (tool.Run (patches, 0).empty () && tool.Run (std::vector<Patch> ()).empty (),
           "samples: none");
    Check (tool.Run (std::vector<Patch> (1, patches[0]), 1 << 30).size () == 1,
           "samples: more than there are");

    size_t const side = patches[0].size ();
    tool.fWireDriftData.assign (side, std::vector<float> (side));
    tool.fWireDriftData = patches[5];
    auto const centre = static_cast<unsigned int> (side / 2);
    for (int again = 0; again < 2; again++)
        Check (SameBits (tool.predictIdVector (centre, static_cast<float> (6 * centre + 1)),
                         scores[5]),
               "a patch of the base class");

    std::vector<Patch> bad (patches.begin (), patches.begin () + 3);
    bad[1][2][3] = std::numeric_limits<float>::quiet_NaN ();
    auto const rows = tool.Run (bad);
    Check (SameBits (rows[0], scores[0]) && SameBits (rows[2], scores[2]), "beside a bad pixel");
    Check (std::isnan (rows[1][0]) && std::isnan (rows[1].back ()), "a bad pixel has NaN");
    for (int which = 0; which < 2; which++) {
        bad = { patches[0], patches[1] };
        which ? bad[1].pop_back () : bad[1][3].pop_back ();
        bool thrown = false;
        try {
            tool.Run (bad);
        } catch (cet::exception const &e) {
            thrown = std::string (e.what ()).find ("patch 1 ") != std::string::npos;
        }
        Check (thrown, "a patch of another shape is refused by its number");
    }
}

void ScorePatches (std::string const &fcl, std::string const &file, size_t n_thread)
{
    auto const table = Fcl (fcl).get<fhicl::ParameterSet> ("tool");
    auto const tool = art::make_tool<Tool> (table);
    auto const patches = ReadPatches (file, table.get<size_t> ("PatchSizeW"));
    Check (patches.size () > 256, "there are patches");
    std::vector<Scores> of (n_thread);
    std::vector<std::exception_ptr> failed (n_thread);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < n_thread; t++) // a tool of its own for each
        threads.emplace_back ([&, t] {
            try {
                of[t] = Loop (*art::make_tool<Tool> (table), patches);
            } catch (...) {
                failed[t] = std::current_exception ();
            }
        });
    for (auto &thread : threads)
        thread.join ();
    for (auto const &error : failed)
        if (error)
            std::rethrow_exception (error);
    for (size_t t = 0; t < n_thread; t++)
        for (size_t i = 0; i < patches.size (); i++)
            Check (SameBits (of[t].at (i), of[0].at (i)), "threads have the same bits");
    Check (tool->outputLabels () == table.get<std::vector<std::string>> ("NNetOutputs"), "labels");
    CheckForms (*tool, patches, of[0]);
    for (auto const &row : of[0])
        for (size_t k = 0; k < row.size (); k++)
            std::printf ("%.9g%c", static_cast<double> (row[k]), k + 1 < row.size () ? ' ' : '\n');
}

// Pulses on each channel; one is short, one reaches behind the end, and channel 7 is bad.
art::Event MakeEvent (uint32_t number)
{
    next_random = number;
    art::Event event;
    event.id_ = { 5, 1, number };
    auto wires = std::make_unique<std::vector<recob::Wire>> ();
    auto hits = std::make_unique<std::vector<recob::Hit>> ();
    for (unsigned int channel = 0; channel < 120; channel++) {
        std::vector<recob::Wire::Range> ranges;
        for (int pulse = 0; pulse < 3; pulse++) {
            size_t const first =
                static_cast<size_t> (pulse * 2000) + static_cast<size_t> (Random (1900));
            std::vector<float> adc (30);
            for (auto &value : adc)
                value = Random (40) - 2;
            ranges.push_back ({ first, adc });
            hits->emplace_back (geo::WireID{ { 0, 0, channel / 60 }, channel % 60 },
                                static_cast<float> (first) + Random (30));
        }
        if (channel == 90)
            ranges.push_back ({ 5990, std::vector<float> (40, 9) });
        wires->emplace_back (channel, channel == 31 ? 5999 : 6100, ranges);
    }
    if (number == 2)
        (*hits)[11] = recob::Hit (geo::WireID{ { 0, 0, 1 }, 99 }, 50);
    // The file's own products are under the tags of the modules that made them.
    event.put (std::move (wires), "caldata");
    event.put (std::move (hits), "hitpdune");
    return event;
}

// What a dump must hold of an event: wires that are good and long enough, up to tick 6000, and hits.
void PrintEvent (art::Event const &event)
{
    auto const number = static_cast<int> (event.id ().event ());
    for (auto const &wire :
         *event.getValidHandle<std::vector<recob::Wire>> (art::InputTag ("caldata")))
        for (auto const &range : wire.SignalROI ().ranges)
            if (wire.Channel () != 7 && wire.Channel () != 31) {
                int const n = range.first == 5990 ? 10 : 30;
                std::printf ("roi %d %u %zu %d %.9g %.9g\n", number, wire.Channel (), range.first,
                             n, static_cast<double> (range.values[0]),
                             static_cast<double> (range.values[static_cast<size_t> (n - 1)]));
            }
    int key = 0;
    for (auto const &hit :
         *event.getValidHandle<std::vector<recob::Hit>> (art::InputTag ("hitpdune")))
        std::printf ("hit %d %d %u %u %.9g\n", number, key++, hit.WireID ().Plane,
                     hit.WireID ().Wire, static_cast<double> (hit.PeakTime ()));
}

void PrintProducts (art::Event const &event)
{
    using Vectors = std::vector<anab::FeatureVector<4>>;
    using Descriptions = std::vector<anab::MVADescription<4>>;
    auto const *description = event.getValidHandle<Descriptions> (art::InputTag ("emtrkmichel"));
    Check (description->size () == 1 && description->front ().tag == "hitpdune" &&
               description->front ().instance == "emtrkmichelrecobHit" &&
               description->front ().names ==
                   std::vector<std::string>{ "track", "em", "none", "michel" },
           "the description");
    for (auto const &row : *event.getValidHandle<Vectors> (art::InputTag ("emtrkmichelrecobHit")))
        for (size_t k = 0; k < 4; k++)
            std::printf ("%.9g%c", static_cast<double> (row[k]), k < 3 ? ' ' : '\n');
}

void RunModule (std::string const &fcl, std::string const &name, uint32_t n_event)
{
    auto const table = Fcl (fcl).get<fhicl::ParameterSet> (name);
    auto const module = art::Makers<std::unique_ptr<art::Module>> ().at (
        table.get<std::string> ("module_type")) (table);
    module->beginJob ();
    for (uint32_t number = 1; number <= n_event; number++) {
        auto event = MakeEvent (number);
        module->process (event);
        if (dynamic_cast<art::EDProducer *> (module.get ()))
            PrintProducts (event);
        else
            PrintEvent (event);
    }
    module->endJob ();
}
} // namespace

int main (int argc, char **argv)
{
    std::vector<std::string> const word (argv, argv + argc);
    H5Eset_auto2 (H5E_DEFAULT, nullptr, nullptr);
    try {
        Check (argc == 5, "four arguments");
        if (word[1] == "patches")
            WritePatches (word[2], std::stoul (word[3]), std::stoul (word[4]));
        else if (word[1] == "scores")
            ScorePatches (word[2], word[3], std::stoul (word[4]));
        else
            RunModule (word[2], word[3], static_cast<uint32_t> (std::stoul (word[4])));
    } catch (std::exception const &e) {
        std::fprintf (stderr, "%s\n", e.what ());
        return 1;
    }
    return 0;
}
