// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: Varve and RocksDB work on one directory in turn, are killed while they
// do it, and each finds all of every step or nothing, and all steps that had
// returned: batches over two families, of puts, merges and deletions of all
// kinds, ingestions of tables that either engine has written, flushes,
// compactions, removals of whole tables and changes of options. Each opens with
// options of its own or with those of the other's OPTIONS file; extractors of
// prefixes and the filters change between opens. Method: a child does numbered
// steps, which a seed determines, and is killed. The other engine opens what is
// left, compares it with a model, seeks in prefixes, and is the next child or
// not. VARVE_SESSIONS sets the number of sessions.

#include "test/testing/engines/engines.h"
#include "test/testing/engines/killed_children.h"

namespace varve::test {
namespace {

constexpr int kKeys = 400;
// The keys after them are put only if they are absent, never merged, and
// deleted only by single deletions, if they are there, and by ranges. Removals
// of tables stop before them: without the single deletion of an older value, a
// newer single deletion would reveal it.
constexpr int kSingleKeys = 100;
constexpr char kOperator[] = "stringappend";  // With commas.
const std::vector<std::string>& FamilyNames() {
  static const auto* const names =
      new std::vector<std::string>{kDefaultColumnFamilyName, "other"};
  return *names;
}

struct Step {
  enum class Kind {
    kWrite,
    kIngest,
    kFlush,
    kCompact,
    kCompactSome,
    kDeleteFiles,
    kSetOptions,
    kSeek
  };

  int number = 0;
  Kind kind = Kind::kWrite;
  std::string family;
  std::string first;  // A range of keys, with both limits, for some kinds.
  std::string last;
  std::vector<Update> updates;
};

// What a step puts, or merges.
std::string ValueOf(int number) {
  Rng random(static_cast<uint64_t>(number));
  std::string bytes = random.Bytes(random.Below(random.OneIn(5) ? 2000 : 100));
  std::replace(bytes.begin(), bytes.end(), ',', ';');
  return std::to_string(number) + "." + bytes;
}

// ---- The model --------------------------------------------------------------

// Keys, and the numbers of the steps whose operands the value has, in their
// order. The first one may have put it.
using Numbers = std::map<std::string, std::vector<int>>;

std::string ValueOf(const std::vector<int>& numbers) {
  std::string value;
  for (const int number : numbers) {
    value += (value.empty() ? "" : ",") + ValueOf(number);
  }
  return value;
}

// After a removal of tables the keys of its range are unsure, until they are
// put, deleted or seen: each is absent or has any value that it ever had,
// without any of the operands.
class Model {
 public:
  void Apply(const Step& step) {
    for (const auto& [kind, key, value, name] : step.updates) {
      Family* const family = &families_[name];
      if (kind != Update::Kind::kMerge) {
        const std::string end =
            kind == Update::Kind::kDeleteRange ? value : key + '\0';
        EraseRange(key, end, &family->numbers);
        EraseRange(key, end, &family->unsure);
        if (kind != Update::Kind::kPut) continue;
      }
      family->numbers[key].push_back(step.number);
      family->history[key][step.number] |= kind == Update::Kind::kMerge;
    }
    if (step.kind != Step::Kind::kDeleteFiles) return;
    Family* const family = &families_[step.family];
    for (const auto& [key, numbers] : family->history) {
      if (key >= step.first && key <= step.last) family->unsure[key] = {};
    }
  }

  // Returns whether these can be the entries of the family.
  bool Allows(const std::string& name, const Numbers& found) const {
    const auto place = families_.find(name);
    if (place == families_.end()) return found.empty();
    const Family& family = place->second;
    for (const auto& [key, numbers] : found) {
      if (family.unsure.count(key) != 0 &&
          !CanBe(family.history.at(key), numbers)) {
        return false;
      }
    }
    return Sure(name, found) == Sure(name, family.numbers);
  }
  // Leaves out the unsure keys.
  Numbers Sure(const std::string& name, Numbers numbers) const {
    const auto place = families_.find(name);
    if (place == families_.end()) return numbers;
    std::erase_if(numbers, [&](const auto& entry) {
      return place->second.unsure.count(entry.first) != 0;
    });
    return numbers;
  }
  const Numbers& numbers(const std::string& name) {
    return families_[name].numbers;
  }
  bool Has(const std::string& name, const std::string& key) const {
    const auto place = families_.find(name);
    return place != families_.end() && place->second.numbers.count(key) != 0;
  }
  // What the family has is known now. Returns how many keys a removal of tables
  // has removed or set back.
  int Take(const std::string& name, const Numbers& found) {
    Family* const family = &families_[name];
    int changed = 0;
    for (const auto& [key, unused] : family->unsure) {
      const auto before = family->numbers.find(key);
      const auto now = found.find(key);
      const bool was = before != family->numbers.end();
      changed += was && (now == found.end() || *now != *before) ? 1 : 0;
    }
    family->numbers = found;
    family->unsure.clear();
    return changed;
  }

 private:
  struct Family {
    Numbers numbers;
    Numbers unsure;  // As a set.
    // The steps that have put or merged each key, and whether they merged it.
    std::map<std::string, std::map<int, bool>> history;
  };

  // Returns whether tables can have been removed so that this value is left.
  static bool CanBe(const std::map<int, bool>& history,
                    const std::vector<int>& numbers) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      const auto step = history.find(numbers[i]);
      if (step == history.end()) return false;
      if (i > 0 && (!step->second || numbers[i] < numbers[i - 1])) return false;
    }
    return true;
  }

  static void EraseRange(const std::string& begin, const std::string& end,
                         Numbers* numbers) {
    if (begin >= end) return;
    numbers->erase(numbers->lower_bound(begin), numbers->lower_bound(end));
  }

  std::map<std::string, Family> families_;
};

// Expects that each value is what its steps have put and merged.
Numbers NumbersOf(const EntryList& entries) {
  Numbers all;
  for (const auto& [key, value] : entries) {
    std::vector<int>* const numbers = &all[key];
    std::istringstream operands(value);
    for (std::string operand; std::getline(operands, operand, ',');) {
      numbers->push_back(atoi(operand.c_str()));
    }
    EXPECT_EQ(value, ValueOf(*numbers)) << key;
  }
  EXPECT_EQ(all.size(), entries.size());
  return all;
}

// A line for each key: the key, and its numbers with commas.
std::string Text(const Numbers& all) {
  std::string text;
  for (const auto& [key, numbers] : all) {
    text += key;
    for (size_t i = 0; i < numbers.size(); ++i) {
      text += (i == 0 ? " " : ",") + std::to_string(numbers[i]);
    }
    text += "\n";
  }
  return text;
}

Numbers ParseText(std::istream* text) {
  Numbers all;
  std::string key;
  std::string list;
  while (*text >> key >> list) {
    std::istringstream numbers(list);
    for (std::string number; std::getline(numbers, number, ',');) {
      all[key].push_back(atoi(number.c_str()));
    }
  }
  return all;
}

// ---- The steps --------------------------------------------------------------

// Draws the updates of a write or of an ingested table.
class UpdateDrawer {
 public:
  UpdateDrawer(const Model& model, Step* step, Rng* random)
      : model_(model),
        step_(*step),
        random_(*random),
        is_table_(step->kind == Step::Kind::kIngest),
        value_(ValueOf(step->number)) {}

  void Draw() {
    if (random_.OneIn(6)) {
      // Before the others, as the range hides nothing of its own table.
      range_ = {.kind = Update::Kind::kDeleteRange,
                .key = step_.first,
                .value = step_.last + "0",
                .family = step_.family};
      step_.updates.push_back(range_);
    }
    // In an ingested table each key is once.
    std::map<std::string, Update> by_key;
    for (int i = random_.Between(1, random_.OneIn(10) ? 100 : 12); i > 0; --i) {
      const int key = random_.Between(0, kKeys + kSingleKeys);
      Update update{
          .key = Key(key),
          .value = value_,
          .family = is_table_ ? step_.family : FamilyNames()[random_.Below(2)]};
      if (key > kKeys) {
        if (!DrawSingle(&update)) continue;
      } else if (random_.OneIn(5)) {
        update.kind = Update::Kind::kDelete;
      } else if (random_.OneIn(3)) {
        update.kind = Update::Kind::kMerge;
      }
      if (is_table_) {
        by_key[update.key] = update;
      } else {
        step_.updates.push_back(update);
      }
    }
    for (const auto& [key, update] : by_key) step_.updates.push_back(update);
    if (step_.updates.empty()) {
      step_.updates.push_back(
          {.key = Key(0), .value = value_, .family = step_.family});
    }
  }

 private:
  // Returns false if the key must not be updated.
  bool DrawSingle(Update* update) {
    const auto place =
        present_.try_emplace({update->family, update->key}, IsPresent(*update));
    bool* const is_present = &place.first->second;
    if (*is_present) {
      if (is_table_ || random_.OneIn(3)) return false;
      update->kind = Update::Kind::kSingleDelete;
    }
    *is_present = !*is_present;
    return true;
  }
  // Before the step's updates, but for the range.
  bool IsPresent(const Update& update) const {
    const bool in_range = update.family == range_.family &&
                          update.key >= range_.key && update.key < range_.value;
    return !in_range && model_.Has(update.family, update.key);
  }

  const Model& model_;
  Step& step_;
  Rng& random_;
  const bool is_table_;
  const std::string value_;
  Update range_;  // Empty if there is none.
  std::map<std::pair<std::string, std::string>, bool> present_;
};

// The step of a number is always the same after the same steps.
Step MakeStep(uint64_t seed, int number, const Model& model) {
  using enum Step::Kind;
  Rng random(seed + static_cast<uint64_t>(number));
  Step step;
  step.number = number;
  step.kind = random.Pick({kWrite, kWrite, kWrite, kWrite, kWrite, kWrite,
                           kIngest, kIngest, kIngest, kFlush, kCompact,
                           kCompactSome, kDeleteFiles, kSetOptions, kSeek});
  step.family = FamilyNames()[random.Below(2)];
  const int first = random.Between(0, kKeys);
  int last = first + random.Between(0, random.OneIn(4) ? kKeys : 50);
  if (step.kind == kDeleteFiles) last = std::min(last, kKeys);
  step.first = Key(first);
  step.last = Key(last);
  if (step.kind == kWrite || step.kind == kIngest) {
    UpdateDrawer(model, &step, &random).Draw();
  }
  return step;
}

// ---- The sessions -----------------------------------------------------------

// gtest runs suites of such names first, before this process has threads.
class KillInteropDeathTest : public ::testing::Test {
 protected:
  // An engine of a child, with the database open.
  struct Opened {
    Opened(uint64_t seed, const std::string& path, bool is_varve)
        : random(seed), engines(&random) {
      engine =
          is_varve ? static_cast<Engine*>(&engines.varve) : &engines.rocksdb;
      Setting setting;
      setting.has_ranges = true;
      setting.merge_operator = kOperator;
      setting.atomic_flush = random.OneIn(4);
      setting.loads_options = random.OneIn(2);
      setting.prefix_extractor = random.Pick<const char*>(
          {"nullptr", "fixed:9", "fixed:10", "capped:8", "rocksdb.Noop"});
      Options parsed;
      EXPECT_TRUE(
          Ok(SetOption("prefix_extractor", setting.prefix_extractor, &parsed)));
      extractor = parsed.prefix_extractor;
      engine->Open(path, setting, FamilyNames());
      if (HasFailure()) _exit(1);
    }

    // The entries from the target on that have its prefix.
    Numbers InPrefix(const Numbers& all, const std::string& target) const {
      Numbers result;
      for (auto at = all.lower_bound(target); at != all.end(); ++at) {
        if (extractor != nullptr &&
            extractor->Transform(at->first) != extractor->Transform(target)) {
          break;
        }
        result.insert(*at);
      }
      return result;
    }

    Rng random;
    EnginePair engines;
    Engine* engine;
    std::shared_ptr<const SliceTransform> extractor;
  };

  KillInteropDeathTest() : random_(TestSeed()), seed_(random_.Next()) {}

  void Do(const Step& step, Opened* opened, Model* model) {
    Engine* const engine = opened->engine;
    Rng* const random = &opened->random;
    const std::string& name = step.family;
    const std::string* const no_key = nullptr;
    switch (step.kind) {
      case Step::Kind::kWrite:
        engine->Write(step.updates, false);
        break;
      case Step::Kind::kIngest: {
        const std::string file = dir_.Sub("table");
        std::filesystem::remove(file);
        Engine* const writer =
            random->OneIn(2) ? static_cast<Engine*>(&opened->engines.varve)
                             : &opened->engines.rocksdb;
        writer->WriteTable(name, file, step.updates);
        engine->Ingest(name, {file}, random->OneIn(2));
        break;
      }
      case Step::Kind::kFlush:
        engine->Flush({name});
        break;
      case Step::Kind::kCompact: {
        const bool whole = random->OneIn(2);
        engine->Compact(name, whole ? no_key : &step.first,
                        whole ? no_key : &step.last);
        break;
      }
      case Step::Kind::kCompactSome:
        engine->CompactSome(name, step.first, step.last);
        break;
      case Step::Kind::kDeleteFiles:
        engine->DeleteFiles(name, step.first, step.last);
        break;
      case Step::Kind::kSetOptions:
        engine->SetOptions(
            name, {{"write_buffer_size", std::to_string(BufferSize(step))},
                   {"level0_file_num_compaction_trigger",
                    std::to_string(random->Between(2, 6))}});
        break;
      case Step::Kind::kSeek:
        for (int i = 0; i < 20; ++i) {
          const std::string target = Key(random->Between(0, 2 * kKeys));
          const Numbers found = NumbersOf(engine->ScanPrefix(name, target));
          const Numbers expected =
              opened->InPrefix(model->numbers(name), target);
          EXPECT_EQ(Text(model->Sure(name, found)),
                    Text(model->Sure(name, expected)))
              << target;
        }
    }
    model->Apply(step);
  }
  static size_t BufferSize(const Step& step) {
    return (64 << 10) + static_cast<size_t>(step.number);
  }

  void Session(bool is_varve) {
    const int first = children_.attempted() + 1;
    std::unique_ptr<Opened> opened;
    const uint64_t session_seed = random_.Next();
    ASSERT_TRUE(children_.RunAndKill(
        &random_, 60,
        [&] {
          opened = std::make_unique<Opened>(session_seed, path_, is_varve);
        },
        [&](int n) { Do(MakeStep(seed_, n, model_), opened.get(), &model_); }));
    // The newest options of each family that may be stored.
    std::map<std::string, std::set<size_t>> sizes;
    for (int n = first; n <= children_.attempted(); ++n) {
      const Step step = MakeStep(seed_, n, model_);
      ++kinds_[step.kind];
      for (const Update& update : step.updates) ++updates_[update.kind];
      if (n > children_.done()) before_last_ = model_;
      model_.Apply(step);
      if (step.kind != Step::Kind::kSetOptions) continue;
      if (n > children_.done() && sizes.count(step.family) == 0) continue;
      if (n <= children_.done()) sizes[step.family].clear();
      sizes[step.family].insert(BufferSize(step));
    }
    if (children_.done() == children_.attempted()) before_last_ = model_;
    const bool checks_varve = random_.OneIn(4) ? is_varve : !is_varve;
    const uint64_t check_seed = random_.Next();
    ASSERT_TRUE(children_.Passes([&] {
      Check(check_seed, checks_varve, sizes);
    })) << (is_varve ? "Varve" : "RocksDB")
        << " was killed, " << (checks_varve ? "Varve" : "RocksDB")
        << " checks; steps " << first << " to " << children_.done() << " of "
        << children_.attempted();
    for (const std::string& name : FamilyNames()) {
      std::ifstream file(dir_.Sub("found " + name));
      removed_ += model_.Take(name, ParseText(&file));
    }
  }

  // For a child. Leaves what it finds in files.
  void Check(uint64_t seed, bool is_varve,
             const std::map<std::string, std::set<size_t>>& sizes) {
    for (const auto& [name, allowed] : sizes) {
      Rng random(1);
      EnginePair engines(&random);
      const size_t by_varve = engines.varve.StoredBufferSize(path_, name);
      EXPECT_EQ(allowed.count(by_varve), 1u) << name << by_varve;
      EXPECT_EQ(engines.rocksdb.StoredBufferSize(path_, name), by_varve);
    }
    Opened opened(seed, path_, is_varve);
    std::map<std::string, Numbers> found;
    const auto allows = [&found](const Model& model) {
      return std::all_of(
          FamilyNames().begin(), FamilyNames().end(),
          [&](const auto& name) { return model.Allows(name, found[name]); });
    };
    for (const std::string& name : FamilyNames()) {
      found[name] = NumbersOf(opened.engine->Scan(name, nullptr));
    }
    if (!allows(before_last_) && !allows(model_)) {
      ADD_FAILURE() << "neither all nor nothing of step "
                    << children_.attempted();
      for (const std::string& name : FamilyNames()) {
        EXPECT_EQ(Text(model_.Sure(name, found[name])),
                  Text(model_.Sure(name, model_.numbers(name))))
            << name;
      }
    }
    for (const std::string& name : FamilyNames()) {
      CheckReads(name, found[name], &opened);
      std::ofstream(dir_.Sub("found " + name)) << Text(found[name]);
    }
    opened.engine->Close();
  }
  void CheckReads(const std::string& name, const Numbers& all, Opened* opened) {
    Engine* const engine = opened->engine;
    EXPECT_EQ(NumbersOf(engine->ScanBackward(name, nullptr)), all);
    for (int i = 0; i < 100; ++i) {
      const std::string key = Key(opened->random.Between(0, 2 * kKeys));
      const auto entry = all.find(key);
      EXPECT_EQ(engine->Get(name, key, nullptr),
                entry == all.end() ? "NotFound" : ValueOf(entry->second));
      EXPECT_EQ(Text(NumbersOf(engine->ScanPrefix(name, key))),
                Text(opened->InPrefix(all, key)))
          << key;
    }
  }

  TempDir dir_;
  Rng random_;
  const uint64_t seed_;  // Of the steps.
  const std::string path_ = dir_.Sub("db");
  KilledChildren children_;
  Model model_;
  Model before_last_;  // Without the last step, if it had not returned.
  std::map<Step::Kind, int> kinds_;
  std::map<Update::Kind, int> updates_;
  int removed_ = 0;  // Keys, by removals of tables.
};

TEST_F(KillInteropDeathTest, AllOrNothingOfEachStep) {
  const int sessions = EnvironmentInt("VARVE_SESSIONS", 12);
  ASSERT_TRUE(children_.Passes([this] {
    std::unique_ptr<DB> db;
    Options options = TinyOptions();
    options.merge_operator = FindMergeOperator(kOperator);
    ASSERT_TRUE(Ok(DB::Open(options, path_, &db)));
    ColumnFamilyHandle* other = nullptr;
    // Small buffers from the beginning: RocksDB aborts if an OPTIONS file has
    // larger arenas than a buffer that was made smaller.
    EXPECT_TRUE(Ok(db->CreateColumnFamily(options, FamilyNames()[1], &other)));
    delete other;
  }));
  for (int i = 0; i < sessions; ++i) {
    SCOPED_TRACE("session " + std::to_string(i));
    ASSERT_NO_FATAL_FAILURE(Session(random_.OneIn(2)));
  }
  using enum Step::Kind;
  printf(
      "%d sessions: %d batches, %d ingestions, %d flushes, %d compactions, %d "
      "of some tables, %d removals of tables, %d changes of options, %d walks "
      "in prefixes; %d keys removed with tables; %d puts, %d merges, %d "
      "deletions, %d single deletions, %d deletions of ranges\n",
      sessions, kinds_[kWrite], kinds_[kIngest], kinds_[kFlush],
      kinds_[kCompact], kinds_[kCompactSome], kinds_[kDeleteFiles],
      kinds_[kSetOptions], kinds_[kSeek], removed_,
      updates_[Update::Kind::kPut], updates_[Update::Kind::kMerge],
      updates_[Update::Kind::kDelete], updates_[Update::Kind::kSingleDelete],
      updates_[Update::Kind::kDeleteRange]);
}

}  // namespace
}  // namespace varve::test
