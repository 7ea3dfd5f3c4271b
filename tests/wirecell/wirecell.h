/* wirecell.h - a stand-in for the headers of Wire-Cell that ops/wirecell includes: what it uses of
   them, written from their interface. Each of those headers includes this one
   (tests/e2e/wirecell.t).  */
#ifndef WM_TESTS_WIRECELL_H
#define WM_TESTS_WIRECELL_H

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <typeindex>
#include <typeinfo>
#include <unistd.h>
#include <vector>

namespace WireCell
{

// Json::Value, as far as a flat object needs it.
class Configuration
{
  public:
    Configuration () = default;
    Configuration &operator= (const char *text) { return set (text); }
    Configuration &operator= (const std::string &text) { return set (text); }
    Configuration &operator= (int number) { return set (std::to_string (number)); }
    Configuration &operator= (bool flag) { return set (flag ? "1" : "0"); }
    Configuration &operator[] (const std::string &key) { return m_member[key]; }
    const std::string *find (const std::string &key) const
    {
        auto at = m_member.find (key);
        return at == m_member.end () ? nullptr : &at->second.m_text;
    }

  private:
    Configuration &set (const std::string &text)
    {
        m_text = text;
        return *this;
    }
    std::string m_text;
    std::map<std::string, Configuration> m_member;
};

template <typename T> T get (const Configuration &cfg, const std::string &key, const T &otherwise)
{
    const std::string *text = cfg.find (key);
    if (!text)
        return otherwise;
    if constexpr (std::is_same_v<T, std::string>)
        return *text;
    else
        return static_cast<T> (std::atoi (text->c_str ()));
}

// Exceptions carry a text that is shifted into them.
struct errmsg {
    std::string text;
};
struct Exception : std::exception {
    std::string text;
    const char *what () const noexcept override { return text.c_str (); }
};
struct ValueError : Exception {};
struct RuntimeError : Exception {};
template <typename E> E operator<< (E exception, const errmsg &message)
{
    exception.text += message.text;
    return exception;
}
#define THROW(e) throw (e)

namespace Persist
{
inline std::string resolve (const std::string &name)
{
    if (!access (name.c_str (), R_OK))
        return name;
    const char *path = std::getenv ("WIRECELL_PATH");
    const std::string found = std::string (path ? path : ".") + "/" + name;
    return access (found.c_str (), R_OK) ? "" : found;
}
} // namespace Persist

template <typename I> struct IComponent {
    virtual ~IComponent () = default;
};
template <typename D> struct IData {
    using pointer = std::shared_ptr<const D>;
    using vector = std::vector<pointer>;
    using shared_vector = std::shared_ptr<const vector>;
    virtual ~IData () = default;
};
struct IConfigurable : IComponent<IConfigurable> {
    virtual Configuration default_configuration () const = 0;
    virtual void configure (const Configuration &cfg) = 0;
};
struct ITensor : IData<ITensor> {
    using shape_t = std::vector<size_t>;
    using order_t = std::vector<size_t>;
    virtual std::type_index element_type () const = 0;
    virtual size_t element_size () const = 0;
    virtual shape_t shape () const = 0;
    virtual order_t order () const { return order_t (); }
    virtual const std::byte *data () const = 0;
    virtual size_t size () const = 0;
    virtual Configuration metadata () const = 0;
};
struct ITensorSet : IData<ITensorSet> {
    virtual int ident () const = 0;
    virtual Configuration metadata () const = 0;
    virtual ITensor::shared_vector tensors () const = 0;
};
struct ITensorForward : IComponent<ITensorForward> {
    virtual ITensorSet::pointer forward (const ITensorSet::pointer &input) const = 0;
};

namespace Aux
{
// spdlog's logger: each {} of the format is the next value. It prints to stderr.
struct log_t {
    template <typename... V> void info (const char *f, const V &...v)
    {
        print ("info", f, {text (v)...});
    }
    template <typename... V> void error (const char *f, const V &...v)
    {
        print ("error", f, {text (v)...});
    }
    static std::string text (const std::string &value) { return value; }
    static std::string text (size_t value) { return std::to_string (value); }
    static void print (const char *level, std::string line, const std::vector<std::string> &values)
    {
        for (const auto &value : values)
            line.replace (line.find ("{}"), 2, value);
        std::fprintf (stderr, "%s: %s\n", level, line.c_str ());
    }
};
struct Logger {
    Logger (const std::string &, const std::string &) : log (std::make_shared<log_t> ()) {}
    std::shared_ptr<log_t> log;
};

class SimpleTensor : public ITensor
{
  public:
    template <typename E>
    SimpleTensor (const shape_t &shape, const E *data)
        : m_type (typeid (E)), m_width (sizeof (E)), m_shape (shape)
    {
        size_t n = sizeof (E);
        for (size_t s : shape)
            n *= s;
        m_store.resize (n);
        if (n)
            std::memcpy (m_store.data (), data, n);
    }
    std::type_index element_type () const override { return m_type; }
    size_t element_size () const override { return m_width; }
    shape_t shape () const override { return m_shape; }
    const std::byte *data () const override { return m_store.data (); }
    size_t size () const override { return m_store.size (); }
    Configuration metadata () const override { return Configuration (); }

  private:
    std::type_index m_type;
    size_t m_width;
    shape_t m_shape;
    std::vector<std::byte> m_store;
};
class SimpleTensorSet : public ITensorSet
{
  public:
    SimpleTensorSet (int ident, const Configuration &metadata, ITensor::shared_vector tensors)
        : m_ident (ident), m_metadata (metadata), m_tensors (tensors)
    {
    }
    int ident () const override { return m_ident; }
    Configuration metadata () const override { return m_metadata; }
    ITensor::shared_vector tensors () const override { return m_tensors; }

  private:
    int m_ident;
    Configuration m_metadata;
    ITensor::shared_vector m_tensors;
};
} // namespace Aux

// The factory: components by their names.
using makers_t = std::map<std::string, std::function<std::shared_ptr<void> ()>>;
inline makers_t &makers ()
{
    static makers_t all;
    return all;
}
template <typename C> std::shared_ptr<void> made ()
{
    return std::static_pointer_cast<void> (std::make_shared<C> ());
}
#define WIRECELL_FACTORY(NAME, CLASS, ...) \
    static const bool NAME##_is_known = \
        WireCell::makers ().emplace (#NAME, WireCell::made<CLASS>).second;

} // namespace WireCell
#endif
