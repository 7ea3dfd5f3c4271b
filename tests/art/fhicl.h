/* fhicl.h - a stand-in for fhiclcpp: parameter sets and strict tables, as far as ops/art uses them.

   Written from the public interface, in a small part of the language: values, sequences, tables,
   comments, prologs, @local:: and @table::. A table refuses unknown keys and missing ones.  */
#ifndef WM_STANDIN_FHICL_H
#define WM_STANDIN_FHICL_H

#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace cet
{
class exception : public std::exception
{
    std::string text_;

  public:
    explicit exception (std::string const &category) : text_ (category + ": ")
    {
    }
    exception &operator<< (std::string const &text)
    {
        text_ += text;
        return *this;
    }
    exception &operator<< (char const *text)
    {
        text_ += text;
        return *this;
    }
    template <class T> std::enable_if_t<std::is_arithmetic_v<T>, exception &> operator<< (T number)
    {
        text_ += std::to_string (number);
        return *this;
    }
    char const *what () const noexcept override
    {
        return text_.c_str ();
    }
};
} // namespace cet

namespace fhicl
{
class ParameterSet
{
  public:
    struct Value {
        std::string text;
        std::vector<Value> items;
        std::shared_ptr<ParameterSet> table;
    };
    bool has_key (std::string const &key) const
    {
        return values.count (key) != 0;
    }
    template <class T> T get (std::string const &key) const
    {
        auto const at = values.find (key);
        if (at == values.end ())
            throw cet::exception ("fhicl") << "no key " << key;
        return convert<T> (at->second);
    }
    template <class T> static T convert (Value const &value)
    {
        if constexpr (std::is_same_v<T, ParameterSet>) {
            if (!value.table)
                throw cet::exception ("fhicl") << value.text << " is no table";
            return *value.table;
        } else if constexpr (std::is_same_v<T, bool>) {
            return value.text == "true";
        } else if constexpr (std::is_arithmetic_v<T>) {
            char *end;
            double const number = std::strtod (value.text.c_str (), &end);
            if (value.text.empty () || *end)
                throw cet::exception ("fhicl") << value.text << " is no number";
            return static_cast<T> (number);
        } else if constexpr (std::is_constructible_v<T, std::string>) {
            return T (value.text);
        } else {
            T items;
            for (auto const &item : value.items)
                items.push_back (convert<typename T::value_type> (item));
            return items;
        }
    }
    static ParameterSet make (std::string const &text); // tests/art/fhicl.cc
    std::map<std::string, Value> values;
};

struct Name {
    std::string text;
    explicit Name (std::string const &t) : text (t)
    {
    }
};
struct Comment {
    explicit Comment (std::string const &)
    {
    }
};

// A parameter enters itself in the table whose configuration is being constructed.
class Parameter
{
  public:
    explicit Parameter (std::string const &n) : name (n)
    {
        if (members ())
            members ()->push_back (this);
    }
    Parameter () = default;
    Parameter (Parameter const &) = delete;
    Parameter &operator= (Parameter const &) = delete;
    virtual ~Parameter () = default;
    virtual void set (ParameterSet const &, std::string const &where) = 0;
    static std::vector<Parameter *> *&members ()
    {
        static thread_local std::vector<Parameter *> *current = nullptr;
        return current;
    }
    std::string name;
};

template <class T, bool needed> class Single : public Parameter
{
  public:
    Single (Name const &n, Comment const &) : Parameter (n.text)
    {
    }
    Single (Name const &n, Comment const &, T const &otherwise)
        : Parameter (n.text), value_ (otherwise), there_ (true)
    {
    }
    void set (ParameterSet const &from, std::string const &where) override
    {
        if (from.has_key (name))
            value_ = from.get<T> (name), there_ = true;
        else if (needed && !there_)
            throw cet::exception ("fhicl") << "missing parameter " << where << name;
    }

  protected:
    T value_{};
    bool there_ = false;
};
template <class T> struct Atom : Single<T, true> {
    using Single<T, true>::Single;
    T const &operator() () const
    {
        return this->value_;
    }
};
template <class T> struct Sequence : Atom<std::vector<T>> {
    using Atom<std::vector<T>>::Atom;
};
template <class T> struct OptionalAtom : Single<T, false> {
    using Single<T, false>::Single;
    bool operator() (T &value) const
    {
        if (this->there_)
            value = this->value_;
        return this->there_;
    }
};
template <class T> struct OptionalSequence : OptionalAtom<std::vector<T>> {
    using OptionalAtom<std::vector<T>>::OptionalAtom;
};

template <class C> class Table : public Parameter
{
    std::vector<Parameter *> mine_, *outer_ = std::exchange (members (), &mine_);
    C config_;
    ParameterSet pset_;
    std::set<std::string> ignored_;

  public:
    Table (Name const &n, Comment const &) : Parameter (n.text)
    {
        members () = outer_;
    }
    Table (ParameterSet const &from, std::set<std::string> const &ignored = {}) : ignored_ (ignored)
    {
        members () = outer_;
        fill (from, "");
    }
    void set (ParameterSet const &from, std::string const &where) override
    {
        fill (from.get<ParameterSet> (name), where + name + ".");
    }
    void fill (ParameterSet const &from, std::string const &where)
    {
        auto known = ignored_;
        for (auto *parameter : mine_) {
            parameter->set (from, where);
            known.insert (parameter->name);
        }
        for (auto const &[key, value] : from.values)
            if (!known.count (key))
                throw cet::exception ("fhicl") << "unsupported parameter " << where << key;
        pset_ = from;
    }
    C const &operator() () const
    {
        return config_;
    }
    ParameterSet const &get_PSet () const
    {
        return pset_;
    }
};
} // namespace fhicl
#endif
