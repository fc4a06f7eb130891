// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the table of options is complete, and what it says of each option is
// done and documented. Method: compares the table with docs/options.md, which
// is generated from varve/options.h; for each row, the values at its bounds and
// next to them, and texts.

#include "db/options/option_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <ostream>
#include <regex>
#include <sstream>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "db/options/options_check.h"
#include "db/options/options_update.h"
#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/fixtures_dir.h"

namespace varve::test {
namespace {

// Calls visit(row, field) for each row.
template <typename Visit>
void VisitRows(Visit visit) {
  for (const OptionRow& row : kOptionTable) {
    SCOPED_TRACE(row.name);
    std::visit([&](const auto& field) { visit(row, field); }, row.field);
  }
}

// Returns the text of each option of databases and families in the page.
std::map<std::string, std::string> ReadPage() {
  std::istringstream page(
      ReadWholeFile(FixturesDir() + "/../../docs/options.md"));
  const std::regex anchor("<a id=\"(\\w+)\">");
  std::map<std::string, std::string> texts;
  std::vector<std::string> names;
  bool is_wanted = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) {
      is_wanted = line == "## DBOptions" || line == "## ColumnFamilyOptions";
    }
    if (line.starts_with("#") || line.starts_with("<a id=")) names.clear();
    for (std::sregex_iterator found(line.begin(), line.end(), anchor), end;
         found != end; ++found) {
      names.push_back((*found)[1]);
    }
    if (!is_wanted) continue;
    for (const std::string& name : names) texts[name] += line + "\n";
  }
  return texts;
}

// The bounds of a number as the page has them. Doubles hold all of them.
struct PageBounds {
  std::optional<double> low;
  std::optional<double> high;
  std::optional<double> raised_to;

  bool operator==(const PageBounds&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const PageBounds& b) {
    return out << "low " << b.low.value_or(NAN) << ", high "
               << b.high.value_or(NAN) << ", raised to "
               << b.raised_to.value_or(NAN);
  }
};

// Returns the numbers that match, such as "-1", "64 KiB" and "4 Mi".
std::vector<double> NumbersIn(const std::string& text,
                              const std::string& before,
                              const std::string& between) {
  const std::string number = "(-?[0-9]+(?:\\.[0-9]+)?)(?: ([KMG])iB?)?";
  const std::regex pattern(before + number +
                           (between.empty() ? "" : between + number));
  std::smatch match;
  std::vector<double> numbers;
  if (!std::regex_search(text, match, pattern)) return numbers;
  for (size_t i = 1; i + 1 < match.size(); i += 2) {
    const size_t unit = std::string("KMG").find(match[i + 1].str());
    const int shift =
        match[i + 1].matched ? 10 * (static_cast<int>(unit) + 1) : 0;
    numbers.push_back(std::ldexp(std::stod(match[i].str()), shift));
  }
  return numbers;
}

PageBounds BoundsIn(const std::string& text) {
  PageBounds bounds;
  const auto first = [](const std::vector<double>& numbers) {
    return numbers.empty() ? std::optional<double>() : numbers[0];
  };
  const std::vector<double> both = NumbersIn(text, "\\[", ", ");
  if (!both.empty()) {
    bounds.low = both[0];
    bounds.high = both[1];
  } else {
    bounds.low = first(NumbersIn(text, "At least ", ""));
    bounds.high = first(NumbersIn(text, "At most ", ""));
  }
  const std::vector<double> raised =
      NumbersIn(text, "Values below ", " are raised to ");
  if (!raised.empty()) {
    EXPECT_EQ(raised[0], raised[1]) << text;
    bounds.raised_to = raised[1];
  }
  return bounds;
}

template <typename T>
bool HasLow(const OptionField<T>& field) {
  return field.bounds.low != std::numeric_limits<T>::lowest();
}

template <typename T>
bool HasHigh(const OptionField<T>& field) {
  return field.bounds.high != std::numeric_limits<T>::max();
}

template <typename T>
constexpr bool kIsNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

template <typename T>
T Neighbour(T number, int direction) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::nextafter(number, direction * HUGE_VAL);
  } else {
    return static_cast<T>(number + static_cast<T>(direction));
  }
}

template <typename T>
void ExpectRefused(const char* name, T Options::*member, T value) {
  Options options;
  options.*member = value;
  const Status status = CheckOptions(options);
  EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
  EXPECT_TRUE(status.message().starts_with(name)) << status.ToString();
}

template <typename T>
void ExpectTaken(T Options::*member, T value, T raised) {
  Options options;
  options.*member = value;
  EXPECT_TRUE(Ok(CheckOptions(options)));
  RaiseNumbers(&options);
  EXPECT_EQ(options.*member, raised);
}

TEST(OptionTableTest, HasTheOptionsOfThePageThatAreNoObjects) {
  std::map<std::string, std::string> page = ReadPage();
  for (const OptionRow& row : kOptionTable) {
    EXPECT_EQ(page.erase(row.name), 1u) << row.name;
  }
  for (const auto& [name, text] : page) {
    EXPECT_TRUE(Contains(text, "*`,") || Contains(text, "std::shared_ptr<"))
        << name << " needs a row in db/options/option_table.h";
  }
}

TEST(OptionTableTest, HasTheBoundsOfThePage) {
  std::map<std::string, std::string> page = ReadPage();
  VisitRows([&]<typename T>(const OptionRow& row, const OptionField<T>& field) {
    PageBounds bounds;
    if constexpr (kIsNumber<T>) {
      if (HasLow(field)) {
        (row.raises ? bounds.raised_to : bounds.low) =
            static_cast<double>(field.bounds.low);
      }
      if (HasHigh(field)) {
        bounds.high = static_cast<double>(field.bounds.high);
      }
    }
    EXPECT_EQ(BoundsIn(page[row.name]), bounds) << page[row.name];
  });
}

TEST(OptionTableTest, LetsThoseChangeThatThePageSays) {
  std::map<std::string, std::string> page = ReadPage();
  for (const OptionRow& row : kOptionTable) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(Contains(page[row.name], "Can be changed while the DB is open."),
              row.may_change);
    Options options;
    const Status status = UpdateOptions(
        {{row.name, "1"}},
        row.of_family ? OptionScope::kFamily : OptionScope::kDatabase,
        &options);
    EXPECT_EQ(Contains(status.message(), "is no option that can be changed"),
              !row.may_change)
        << status.ToString();
  }
}

TEST(OptionTableTest, NumbersAndNamesSetTheirFields) {
  VisitRows([]<typename T>(const OptionRow& row, const OptionField<T>& field) {
    Options options;
    if constexpr (std::is_arithmetic_v<T>) {
      for (const char* const text : {"0", "1"}) {
        EXPECT_TRUE(Ok(SetOption(row.name, text, &options)));
        EXPECT_EQ(options.*field.member, static_cast<T>(text[0] - '0'));
      }
    } else if constexpr (NamedEnum<T>) {
      int number = 0;
      for (const char* const text : OptionNames<T>::kAll) {
        EXPECT_TRUE(Ok(SetOption(row.name, text, &options)));
        EXPECT_EQ(static_cast<int>(options.*field.member), number++);
      }
    }
  });
}

TEST(OptionTableTest, NoFieldHasTwoRows) {
  VisitRows([]<typename T>(const OptionRow& row, const OptionField<T>& field) {
    for (const OptionRow& other : kOptionTable) {
      const auto* const same = std::get_if<OptionField<T>>(&other.field);
      if (&other == &row || same == nullptr) continue;
      EXPECT_FALSE(same->member == field.member) << other.name;
    }
  });
}

TEST(OptionTableTest, WrongValuesAreRefusedOrRaised) {
  VisitRows([]<typename T>(const OptionRow& row, const OptionField<T>& field) {
    if constexpr (kIsNumber<T>) {
      const auto& [low, high] = field.bounds;
      if (HasHigh(field)) {
        ExpectTaken(field.member, high, high);
        ExpectRefused(row.name, field.member, Neighbour(high, 1));
      }
      if (!HasLow(field)) return;
      const T below = Neighbour(low, -1);
      ExpectTaken(field.member, low, low);
      if (row.raises) {
        ExpectTaken(field.member, below, low);
      } else {
        ExpectRefused(row.name, field.member, below);
      }
    } else if constexpr (NamedEnum<T>) {
      const auto count = std::size(OptionNames<T>::kAll);
      const auto last = static_cast<T>(count - 1);
      ExpectTaken(field.member, last, last);
      ExpectRefused(row.name, field.member, static_cast<T>(count));
    } else if constexpr (requires { T{CompressionType::kXpress}; }) {
      ExpectTaken(field.member, T{CompressionType::kNone},
                  T{CompressionType::kNone});
      ExpectRefused(row.name, field.member, T{CompressionType::kXpress});
    }
  });
}

}  // namespace
}  // namespace varve::test
