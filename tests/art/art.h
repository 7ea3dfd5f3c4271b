/* art.h - a stand-in for art, canvas, cetlib and messagefacility, as far as ops/art uses them.

   Written from the public interface. An event holds products by type and instance, and refuses one
   that its module has not declared. There is no scheduler, no provenance, no file of ROOT.  */
#ifndef WM_STANDIN_ART_H
#define WM_STANDIN_ART_H

#include "tests/art/fhicl.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <sys/stat.h>
#include <typeindex>

namespace cet
{
class search_path
{
    std::string path_;

  public:
    explicit search_path (std::string const &name)
        : path_ (std::getenv (name.c_str ()) ? std::getenv (name.c_str ()) : "")
    {
    }
    bool find_file (std::string const &name, std::string &found) const
    {
        struct stat as;
        for (size_t at = 0, end; at < path_.size (); at = end + 1) {
            end = std::min (path_.find (':', at), path_.size ());
            found = path_.substr (at, end - at) + "/" + name;
            if (stat (found.c_str (), &as) == 0)
                return true;
        }
        return false;
    }
};
} // namespace cet

namespace mf
{
class Log
{
    cet::exception line_;

  public:
    Log (char const *level, std::string const &category) : line_ (level + (" " + category))
    {
    }
    ~Log ()
    {
        std::fprintf (stderr, "%s\n", line_.what ());
    }
    Log &operator<< (char const *text)
    {
        line_ << text;
        return *this;
    }
    template <class T> Log &operator<< (T const &value)
    {
        line_ << value;
        return *this;
    }
};
struct LogInfo : Log {
    explicit LogInfo (std::string const &category) : Log ("info", category)
    {
    }
};
struct LogWarning : Log {
    explicit LogWarning (std::string const &category) : Log ("warning", category)
    {
    }
};
struct LogError : Log {
    explicit LogError (std::string const &category) : Log ("error", category)
    {
    }
};
} // namespace mf

namespace art
{
class InputTag
{
    std::string text_;

  public:
    InputTag (std::string const &text = "") : text_ (text)
    {
    }
    std::string encode () const
    {
        return text_;
    }
};

using Declared = std::set<std::pair<std::type_index, std::string>>;
class ProducesCollector
{
  public:
    template <class T> void produces (std::string const &instance = "")
    {
        declared.emplace (typeid (T), instance);
    }
    Declared declared;
};

class Event
{
    std::map<std::pair<std::type_index, std::string>, std::shared_ptr<void>> products_;

  public:
    struct Id {
        uint32_t r, s, e;
        uint32_t event () const
        {
            return e;
        }
    } id_{ 0, 0, 0 };
    Declared const *declared = nullptr; // by the module that runs; null: the file's own products
    uint32_t run () const
    {
        return id_.r;
    }
    uint32_t subRun () const
    {
        return id_.s;
    }
    Id id () const
    {
        return id_;
    }
    template <class T> T const *getValidHandle (InputTag const &tag) const
    {
        auto const at = products_.find ({ typeid (T), tag.encode () });
        if (at == products_.end ())
            throw cet::exception ("ProductNotFound") << tag.encode ();
        return static_cast<T const *> (at->second.get ());
    }
    template <class T> void put (std::unique_ptr<T> product, std::string const &instance = "")
    {
        if (declared && !declared->count ({ typeid (T), instance }))
            throw cet::exception ("art") << "a product that was not declared: " << instance;
        products_[{ typeid (T), instance }] = std::shared_ptr<T> (std::move (product));
    }
};

// Modules and tools, by the name of their class behind the last colon.
template <class Made> auto &Makers ()
{
    static std::map<std::string, Made (*) (fhicl::ParameterSet const &)> makers;
    return makers;
}
inline std::string LastName (std::string const &name)
{
    return name.substr (name.rfind (':') == std::string::npos ? 0 : name.rfind (':') + 1);
}
template <class Base> std::unique_ptr<Base> make_tool (fhicl::ParameterSet const &from)
{
    auto const name = from.get<std::string> ("tool_type");
    auto const maker = Makers<std::unique_ptr<Base>> ().find (name);
    if (maker == Makers<std::unique_ptr<Base>> ().end ())
        throw cet::exception ("art") << "no tool is called " << name;
    return maker->second (from);
}

class Module
{
  public:
    virtual ~Module () = default;
    virtual void beginJob ()
    {
    }
    virtual void endJob ()
    {
    }
    virtual void process (Event &) = 0;
};
template <class C> struct ModuleTable : fhicl::Table<C> {
    ModuleTable (fhicl::ParameterSet const &from)
        : fhicl::Table<C> (from, { "module_type", "module_label" })
    {
    }
};
class EDAnalyzer : public Module
{
  public:
    template <class C> using Table = ModuleTable<C>;
    template <class C> explicit EDAnalyzer (Table<C> const &)
    {
    }
    virtual void analyze (Event const &) = 0;
    void process (Event &event) override
    {
        analyze (event);
    }
};
class EDProducer : public Module
{
    ProducesCollector collector_;

  public:
    template <class C> using Table = ModuleTable<C>;
    template <class C> explicit EDProducer (Table<C> const &)
    {
    }
    ProducesCollector &producesCollector ()
    {
        return collector_;
    }
    virtual void produce (Event &) = 0;
    void process (Event &event) override
    {
        event.declared = &collector_.declared;
        produce (event);
        event.declared = nullptr;
    }
};

template <class T> class ServiceHandle
{
  public:
    T *operator->() const
    {
        static std::remove_const_t<T> only;
        return &only;
    }
};
} // namespace art

#define WM_STANDIN_ENTER2(a, b) a##b
#define WM_STANDIN_ENTER(a, b) WM_STANDIN_ENTER2 (a, b)
#define WM_STANDIN_MAKER(klass, base)                                                              \
    static bool const WM_STANDIN_ENTER (entered, __COUNTER__) =                                    \
        art::Makers<std::unique_ptr<base>> ()                                                      \
            .emplace (art::LastName (#klass),                                                      \
                      [] (fhicl::ParameterSet const &from) {                                       \
                          return std::unique_ptr<base> (new klass (from));                         \
                      })                                                                           \
            .second;
#define DEFINE_ART_CLASS_TOOL(klass) WM_STANDIN_MAKER (klass, PointIdAlgTools::IPointIdAlg)
#define DEFINE_ART_MODULE(klass) WM_STANDIN_MAKER (klass, art::Module)
#endif
