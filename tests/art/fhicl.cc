/* fhicl.cc - a stand-in for fhiclcpp: reads what ops/art/wiremill.fcl has of the language.  */
#include "tests/art/fhicl.h"

#include <algorithm>
#include <cctype>

namespace
{
using fhicl::ParameterSet;

class Reader
{
    std::string const text_;
    size_t at_ = 0;
    ParameterSet top_;

    char Next () // the next character that is neither space nor comment; 0 at the end
    {
        for (; at_ < text_.size (); at_++)
            if (text_[at_] == '#' || text_.compare (at_, 2, "//") == 0)
                at_ = std::min (text_.find ('\n', at_), text_.size () - 1);
            else if (!std::isspace (static_cast<unsigned char> (text_[at_])))
                return text_[at_];
        return 0;
    }
    void Take (char wanted)
    {
        if (Next () != wanted)
            throw cet::exception ("fhicl")
                << "wanted " << std::string (1, wanted) << " before: " << text_.substr (at_, 40);
        at_++;
    }
    std::string Word ()
    {
        if (Next () == '"') {
            size_t const end = text_.find ('"', at_ + 1);
            std::string const word = text_.substr (at_ + 1, end - at_ - 1);
            at_ = end + 1;
            return word;
        }
        size_t const start = at_;
        while (at_ < text_.size () &&
               (std::isalnum (static_cast<unsigned char> (text_[at_])) ||
                std::string ("_.-+@").find (text_[at_]) != std::string::npos ||
                text_.compare (at_, 2, "::") == 0 || text_.compare (at_ - 1, 2, "::") == 0))
            at_++;
        if (at_ == start)
            throw cet::exception ("fhicl") << "wanted a word before: " << text_.substr (at_, 40);
        return text_.substr (start, at_ - start);
    }
    ParameterSet::Value const &Known (std::string const &name) const
    {
        auto const at = top_.values.find (name);
        if (at == top_.values.end ())
            throw cet::exception ("fhicl") << "nothing is called " << name;
        return at->second;
    }
    ParameterSet::Value Read ()
    {
        ParameterSet::Value value;
        if (Next () == '{') {
            value.table = std::make_shared<ParameterSet> ();
            Take ('{');
            Fill (*value.table, '}');
            Take ('}');
        } else if (Next () == '[') {
            Take ('[');
            while (Next () != ']') {
                value.items.push_back (Read ());
                if (Next () == ',')
                    Take (',');
            }
            Take (']');
        } else {
            value.text = Word ();
            if (value.text.rfind ("@local::", 0) == 0)
                return Known (value.text.substr (8));
        }
        return value;
    }
    void Fill (ParameterSet &into, char end)
    {
        while (Next () != end && Next () != 0) {
            std::string const key = Word ();
            if (key == "BEGIN_PROLOG" || key == "END_PROLOG")
                continue;
            if (key.rfind ("@table::", 0) == 0) {
                for (auto const &[name, value] : Known (key.substr (8)).table->values)
                    into.values[name] = value;
                continue;
            }
            Take (':');
            ParameterSet *table = &into;
            size_t from = 0;
            for (size_t dot; (dot = key.find ('.', from)) != std::string::npos; from = dot + 1) {
                auto &inner = table->values[key.substr (from, dot - from)].table;
                inner = std::make_shared<ParameterSet> (inner ? *inner : ParameterSet ());
                table = inner.get ();
            }
            auto const value = Read ();
            table->values[key.substr (from)] = value;
        }
    }

  public:
    explicit Reader (std::string const &text) : text_ (text)
    {
    }
    ParameterSet All ()
    {
        Fill (top_, 0);
        return top_;
    }
};
} // namespace

fhicl::ParameterSet fhicl::ParameterSet::make (std::string const &text)
{
    return Reader (text).All ();
}
