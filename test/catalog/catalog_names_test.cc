// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: variants
//
// Goal: names that could harm a file system or the reader of a listing are
// refused. Every other name has its own directory, which any file system can
// hold. Method: a list of each kind; random names there and back.
#include "catalog/catalog_names.h"

#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "util/bytes/key_fold.h"

namespace varve::test {
namespace {

TEST(CatalogNamesTest, RefusesInvalidNames) {
  const std::string nul(1, '\0');
  for (const std::string& name :
       {std::string(),           nul,
        "a" + nul + "b",         std::string("a/b"),
        std::string("a\\b"),     std::string("."),
        std::string(".."),       std::string("../x"),
        std::string("a..b"),     std::string("a\n"),
        std::string("\x7F"),     std::string("a\xC2\x85"),
        std::string("\xC2\x80"), std::string("a\u2028b"),
        std::string("a\u2029"),  std::string(".hidden"),
        std::string("end."),     std::string(" a"),
        std::string("a "),       std::string("con"),
        std::string("nul.txt"),  std::string("com1"),
        std::string("lpt9.x"),   std::string("c:"),
        std::string("a*"),       std::string("a?"),
        std::string("\"a\""),    std::string("<a>"),
        std::string("a|b"),      std::string(81, 'a')}) {
    EXPECT_TRUE(CheckDatabaseName(name).IsInvalidArgument())
        << Slice(name).ToString(true);
  }
}

TEST(CatalogNamesTest, TakesValidNames) {
  for (const std::string& name :
       {std::string("a"), std::string("oren"), std::string("a.b"),
        std::string("a b"), std::string("con1"), std::string("com"),
        std::string("com0"), std::string("comet"), std::string("console.x"),
        std::string("\u05D0\u05D5\u05E8\u05DF"), std::string("a%b"),
        std::string("caf\u00E9"), std::string("\u00A0x"),
        std::string(80, 'a')}) {
    EXPECT_EQ(CheckDatabaseName(name).ToString(), "OK") << name;
  }
}

TEST(CatalogNamesTest, DirectoriesAreOfHarmlessBytes) {
  EXPECT_EQ(DatabaseDirectory("oren"), "db-oren");
  EXPECT_EQ(DatabaseDirectory("a.b c"), "db-a%2eb%20c");
  EXPECT_EQ(DatabaseDirectory("100%"), "db-100%25");
  EXPECT_EQ(DatabaseDirectory("\u00E9"), "db-%c3%a9");
  // The longest is no longer than a file name may be.
  EXPECT_LE(DatabaseDirectory(std::string(80, '%')).size(), 255u);
}

TEST(CatalogNamesTest, EachNameHasADirectoryOfItsOwn) {
  Rng rng(TestSeed());
  std::map<std::string, std::string> names;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (uint64_t n = 1 + rng.Below(6); n > 0; --n) {
      text += rng.Pick<const char*>({"a", "2", "%", "-", "_", ".", "e", "%2e",
                                     "db-", "\u00E9", "\u0301", "\u03C3"});
    }
    std::string name;
    ASSERT_TRUE(FoldText(text, KeyFolding::kUnicode, &name));
    if (!CheckDatabaseName(name).ok()) continue;
    const std::string directory = DatabaseDirectory(name);
    for (const char c : directory) {
      ASSERT_TRUE((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == '%')
          << directory;
    }
    const auto [known, is_new] = names.emplace(directory, name);
    EXPECT_EQ(known->second, name);
    std::string parsed;
    ASSERT_TRUE(ParseDatabaseDirectory(directory, &parsed)) << directory;
    EXPECT_EQ(parsed, name);
  }
  EXPECT_GT(names.size(), 1000u);
}

TEST(CatalogNamesTest, KnowsOnlyItsOwnDirectories) {
  std::string name = "unchanged";
  for (const char* directory :
       {"", "db", "db-", "oren", "db-Oren", "db-a%2E", "db-a%61", "db-a%2",
        "db-%", "db-a.b", "db-%2f", "db-%ff", "db-con", "db-a%c3%89",
        "db-e%cc%81", "DB-a", "dropped-1"}) {
    EXPECT_FALSE(ParseDatabaseDirectory(directory, &name)) << directory;
  }
  EXPECT_EQ(name, "unchanged");
  uint64_t number = 0;
  EXPECT_EQ(DroppedDirectory(17), "dropped-17");
  EXPECT_TRUE(ParseDroppedDirectory("dropped-17", &number));
  EXPECT_EQ(number, 17u);
  for (const char* directory : {"dropped-", "dropped-x", "dropped-1x",
                                "dropped--1", "db-dropped-1", "dropped-007"}) {
    EXPECT_FALSE(ParseDroppedDirectory(directory, &number)) << directory;
  }
}

}  // namespace
}  // namespace varve::test
