// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: every call that takes a handle works on that family alone; families are
// opened, listed, created and refused as their page says. Method: the same keys
// in several families, through all calls, open and reopened.

#include "test/testing/comparators.h"
#include "test/testing/db/families_fixture.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/actor.h"
#include "varve/filter_policy.h"
#include "varve/read_transaction.h"

namespace varve::test {
namespace {

class DbFamiliesTest : public FamiliesTest {};

TEST_F(DbFamiliesTest, EveryCallWorksOnItsFamilyAlone) {
  OpenNew({"a", "b"});
  for (const std::string family : {"default", "a", "b"}) {
    for (int i = 0; i < 10; ++i) PutIn(family, Key(i), family + "!");
  }
  EXPECT_EQ(Get(Key(1)), "default!");
  EXPECT_EQ(GetIn("a", Key(1)), "a!");
  ASSERT_TRUE(Ok(db_->Delete({}, At("a"), Key(1))));
  ASSERT_TRUE(Ok(db_->SingleDelete({}, At("a"), Key(2))));
  ASSERT_TRUE(Ok(db_->DeleteRange({}, At("a"), Key(5), Key(8))));
  EntryList in_a;
  for (const int i : {0, 3, 4, 8, 9}) in_a.emplace_back(Key(i), "a!");
  EntryList in_b, in_default;
  for (int i = 0; i < 10; ++i) {
    in_b.emplace_back(Key(i), "b!");
    in_default.emplace_back(Key(i), "default!");
  }
  const auto expect_all = [&] {
    EXPECT_TRUE(FamilyHasEntries(db_.get(), At("a"), in_a));
    EXPECT_TRUE(FamilyHasEntries(db_.get(), At("b"), in_b));
    EXPECT_TRUE(HasEntries(db_.get(), in_default));
    // Null and the DB's own handle are the default family, too.
    EXPECT_TRUE(FamilyHasEntries(db_.get(), nullptr, in_default));
    EXPECT_TRUE(
        FamilyHasEntries(db_.get(), db_->DefaultColumnFamily(), in_default));
    EXPECT_TRUE(FamilyHasEntries(db_.get(), At("default"), in_default));
  };
  expect_all();
  FlushOne("a");
  EXPECT_EQ(NumberIn("a", "varve.num-files-at-level0"), 1u);
  EXPECT_EQ(NumberIn("b", "varve.num-files-at-level0"), 0u);
  EXPECT_EQ(Number("varve.num-files-at-level0"), 0u);
  expect_all();
  ASSERT_TRUE(Ok(db_->Flush({}, {At("b"), At("a"), At("b"), nullptr})));
  EXPECT_EQ(NumberIn("b", "varve.num-files-at-level0"), 1u);
  EXPECT_EQ(Number("varve.num-files-at-level0"), 1u);
  expect_all();
  ASSERT_TRUE(Ok(db_->CompactRange({}, At("a"), nullptr, nullptr)));
  EXPECT_EQ(NumberIn("a", "varve.num-files-at-level0"), 0u);
  EXPECT_EQ(NumberIn("b", "varve.num-files-at-level0"), 1u);
  expect_all();
  for (int i = 0; i < 100; ++i) PutIn("b", "z" + Key(i), Key(i) + " of b");
  for (int i = 0; i < 100; ++i)
    in_b.emplace_back("z" + Key(i), Key(i) + " of b");
  FlushOne("b");
  const Range range{"z", "zz"};
  uint64_t sizes[] = {7, 7, 7};
  ASSERT_TRUE(Ok(db_->GetApproximateSizes(At("b"), &range, 1, &sizes[0])));
  ASSERT_TRUE(Ok(db_->GetApproximateSizes(At("a"), &range, 1, &sizes[1])));
  ASSERT_TRUE(Ok(db_->GetApproximateSizes(&range, 1, &sizes[2])));
  EXPECT_GT(sizes[0], 500u);
  EXPECT_LT(sizes[1], 500u);
  EXPECT_LT(sizes[2], 500u);
  expect_all();
  ReopenAll();
  expect_all();
  EXPECT_TRUE(Ok(db_->VerifyChecksum()));
}

TEST_F(DbFamiliesTest, MultiGetAndNewIteratorsReadSeveral) {
  OpenNew({"a", "b"});
  Put("k", "0");
  PutIn("a", "k", "1");
  PutIn("b", "k", "2");
  PutIn("b", "only b", "3");
  std::vector<std::string> values;
  const std::vector<ColumnFamilyHandle*> families = {
      At("b"), nullptr, At("a"), At("a"), At("b"), At("default"), At("b")};
  const std::vector<Status> statuses = db_->MultiGet(
      {}, families, {"k", "k", "k", "only b", "only b", "k", "k"}, &values);
  ASSERT_EQ(statuses.size(), 7u);
  EXPECT_EQ(values[0], "2");
  EXPECT_EQ(values[1], "0");
  EXPECT_EQ(values[2], "1");
  EXPECT_TRUE(statuses[3].IsNotFound());
  EXPECT_EQ(values[3], "");
  EXPECT_EQ(values[4], "3");
  EXPECT_EQ(values[5], "0");
  EXPECT_EQ(values[6], "2");
  // Pinned values, and more keys than are looked up together.
  std::vector<ColumnFamilyHandle*> many;
  std::vector<Slice> keys;
  for (int i = 0; i < 100; ++i) {
    many.push_back(families[static_cast<size_t>(i) % 3]);
    keys.emplace_back("k");
  }
  std::vector<PinnableSlice> pinned(100);
  std::vector<Status> found(100);
  FlushOne("a");
  db_->MultiGet({}, 100, many.data(), keys.data(), pinned.data(), found.data());
  for (size_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(Ok(found[i]));
    EXPECT_EQ(pinned[i].ToString(), i % 3 == 0 ? "2" : i % 3 == 1 ? "0" : "1");
  }
  for (const Status& s : db_->MultiGet({}, {At("a")}, {"k", "k"}, &values)) {
    EXPECT_TRUE(IsInvalidArgument(s));
  }
  db_->MultiGet({}, 0, many.data(), keys.data(), pinned.data(), found.data());

  std::vector<std::unique_ptr<Iterator>> iterators;
  ASSERT_TRUE(Ok(
      db_->NewIterators({}, {At("b"), At("a"), nullptr, At("b")}, &iterators)));
  ASSERT_EQ(iterators.size(), 4u);
  PutIn("a", "k", "later");
  const char* expected[] = {"2", "1", "0", "2"};
  for (size_t i = 0; i < 4; ++i) {
    iterators[i]->SeekToFirst();
    ASSERT_TRUE(iterators[i]->Valid());
    EXPECT_EQ(iterators[i]->value().ToString(), expected[i]);
  }
  ASSERT_TRUE(Ok(db_->NewIterators({}, {}, &iterators)));
  EXPECT_TRUE(iterators.empty());
}

// A batch's updates take effect in its order, in each family.
// Both families are updated while the first of them is read.
TEST_F(DbFamiliesTest, MultiGetReadsSeveralAtOneMoment) {
  static CallingComparator comparator;
  options_.comparator = &comparator;
  OpenNew({"a"});
  const auto put_both = [this](const char* value) {
    WriteBatch batch;
    batch.Put("k", value);
    batch.Put(At("a"), "k", value);
    EXPECT_TRUE(Ok(db_->Write({}, &batch)));
  };
  put_both("old");
  Actor writer;
  comparator.CallOnce([&] { writer.Do([&] { put_both("new"); }); });
  std::vector<std::string> values;
  for (const Status& s :
       db_->MultiGet({}, {At("default"), At("a")}, {"k", "k"}, &values)) {
    EXPECT_TRUE(Ok(s));
  }
  EXPECT_FALSE(comparator.is_armed());
  EXPECT_EQ(values, (std::vector<std::string>{"old", "old"}));
  EXPECT_EQ(GetIn("a", "k"), "new");
}

TEST_F(DbFamiliesTest, BatchIsOrderedInEachFamily) {
  OpenNew({"a", "b"});
  WriteBatch batch;
  batch.Put(At("a"), "x", "1");
  batch.Put("x", "default");
  batch.Put(At("b"), "x", "2");
  batch.DeleteRange(At("a"), "w", "z");
  batch.Put(At("a"), "x", "3");
  batch.Delete(At("b"), "x");
  batch.Put(At("b"), "y", "4");
  batch.SingleDelete(At("b"), "y");
  batch.PutLogData("note");
  batch.Put(nullptr, "y", "null");
  batch.Put(At("default"), "z", "by handle");
  EXPECT_EQ(batch.Count(), 10u);
  const WriteBatch copy(batch);
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  const auto expect_all = [this] {
    EXPECT_TRUE(FamilyHasEntries(db_.get(), At("a"), {{"x", "3"}}));
    EXPECT_TRUE(FamilyHasEntries(db_.get(), At("b"), {}));
    EXPECT_TRUE(HasEntries(
        db_.get(), {{"x", "default"}, {"y", "null"}, {"z", "by handle"}}));
  };
  expect_all();
  // The same once more, from bytes, doubled, and moved.
  WriteBatch from_bytes(copy.Data());
  WriteBatch doubled(copy);
  doubled.Append(doubled);
  EXPECT_EQ(doubled.Count(), 20u);
  WriteBatch moved(std::move(doubled));
  for (WriteBatch* each : {&from_bytes, &from_bytes, &moved}) {
    ASSERT_TRUE(Ok(db_->Write({}, each)));
    expect_all();
  }
  ReopenAll();
  expect_all();
}

TEST_F(DbFamiliesTest, IterateGivesIds) {
  OpenNew({"a", "b"});
  WriteBatch batch;
  batch.Put(At("b"), "k", "v");
  batch.Delete("d");
  batch.SingleDelete(At("a"), "s");
  batch.DeleteRange(At("b"), "p", "q");
  batch.Delete(At("a"), "e");
  class Recorder : public WriteBatch::Handler {
   public:
    void Put(const Slice&, const Slice&) override { text += "?"; }
    void Delete(const Slice& key) override {
      text += "D " + key.ToString() + ";";
    }
    void DeleteRange(const Slice&, const Slice&) override { text += "?"; }
    Status PutCF(uint32_t family, const Slice& key,
                 const Slice& value) override {
      text += "P" + std::to_string(family) + " " + key.ToString() + "=" +
              value.ToString() + ";";
      return Status::OK();
    }
    Status SingleDeleteCF(uint32_t family, const Slice& key) override {
      text += "S" + std::to_string(family) + " " + key.ToString() + ";";
      return Status::OK();
    }
    Status DeleteRangeCF(uint32_t family, const Slice& begin,
                         const Slice& end) override {
      text += "R" + std::to_string(family) + " " + begin.ToString() + "-" +
              end.ToString() + ";";
      return Status::OK();
    }
    std::string text;
  } recorder;
  // The last one reaches the default implementation.
  EXPECT_TRUE(IsInvalidArgument(batch.Iterate(&recorder)));
  EXPECT_EQ(recorder.text, "P2 k=v;D d;S1 s;R2 p-q;");
}

// Families in bytes from outside count even if others were added by handle.
TEST_F(DbFamiliesTest, BatchOfUnknownFamiliesIsRefusedWhole) {
  OpenNew({"a"});
  WriteBatch foreign;
  {
    // An id that this database does not have.
    std::string bytes(12, '\0');
    bytes[8] = 1;
    bytes += std::string("\x05\x63\x01k\x01v", 6);
    foreign = WriteBatch(bytes);
  }
  std::vector<WriteBatch> batches(4);
  batches[0] = foreign;
  batches[1] = foreign;
  batches[1].Put(At("a"), "x", "1");
  batches[2].Put(At("a"), "x", "1");
  batches[2].Append(foreign);
  batches[3].Put("x", "1");
  batches[3].Append(foreign);
  for (size_t i = 0; i < batches.size(); ++i) {
    SCOPED_TRACE(i);
    for (int time = 0; time < 2; ++time) {
      EXPECT_TRUE(IsInvalidArgument(db_->Write({}, &batches[i])));
    }
    EXPECT_EQ(GetIn("a", "x"), "NotFound");
    EXPECT_EQ(Get("x"), "NotFound");
  }
  Put("after", "1");
  ReopenAsKilled();
  EXPECT_EQ(Get("after"), "1");
  EXPECT_EQ(GetIn("a", "x"), "NotFound");
}

// The order of a range deletion is its own family's.
TEST_F(DbFamiliesTest, RangeDeletionsFollowTheirFamiliesOrder) {
  ReverseComparator reverse;
  family_options_["r"] = options_;
  family_options_["r"].comparator = &reverse;
  OpenNew({"r"});
  for (int i = 0; i < 9; ++i) {
    PutIn("r", Key(i), "v");
    Put(Key(i), "v");
  }
  EXPECT_TRUE(
      db_->DeleteRange({}, At("r"), Key(2), Key(5)).IsInvalidArgument());
  EXPECT_TRUE(db_->DeleteRange({}, Key(5), Key(2)).IsInvalidArgument());
  WriteBatch batch;
  batch.DeleteRange(Key(2), Key(5));
  batch.DeleteRange(At("r"), Key(5), Key(2));
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  const auto expect_all = [this] {
    EntryList forward, backward;
    for (const int i : {0, 1, 5, 6, 7, 8}) forward.emplace_back(Key(i), "v");
    for (const int i : {8, 7, 6, 2, 1, 0}) backward.emplace_back(Key(i), "v");
    EXPECT_TRUE(HasEntries(db_.get(), forward));
    EXPECT_TRUE(FamilyHasEntries(db_.get(), At("r"), backward));
  };
  expect_all();
  ReopenAll();
  expect_all();
  ASSERT_TRUE(Ok(db_->Flush({}, {At("r"), nullptr})));
  expect_all();
  ASSERT_TRUE(Ok(db_->CompactRange({}, At("r"), nullptr, nullptr)));
  expect_all();
  ReopenAll();
  expect_all();
  Close();
  family_options_.clear();
  EXPECT_TRUE(
      IsInvalidArgument(TryOpenAll(), "test.reverse", "column family r"));
}

TEST_F(DbFamiliesTest, OpeningNamesWhatIsWrong) {
  OpenNew({"a", "b", "c d"});
  PutIn("b", "k", "v");
  Close();
  // Without names, or without all of them.
  Status s = DB::Open(options_, path_, &db_);
  EXPECT_TRUE(IsInvalidArgument(s, "Column families not opened: a, b, c d"));
  s = TryOpen({"b"});
  EXPECT_TRUE(Contains(s.message(), "Column families not opened: a, c d"))
      << s.ToString();
  // With others.
  EXPECT_TRUE(IsInvalidArgument(TryOpen({"a", "b", "c d", "x", "y"}),
                                "Column family not found: x, y"));
  EXPECT_TRUE(
      IsInvalidArgument(TryOpen({"a", "b", "c d", "a"}), "a: is given twice"));
  EXPECT_TRUE(IsInvalidArgument(TryOpen({"a", "b", "c d", ""})));
  std::vector<ColumnFamilyHandle*> handles;
  EXPECT_TRUE(IsInvalidArgument(
      DB::Open(options_, path_, {Describe("a")}, &handles, &db_), "efault"));
  // An option of a family that is out of bounds.
  family_options_["b"] = options_;
  family_options_["b"].block_restart_interval = 0;
  EXPECT_TRUE(IsInvalidArgument(TryOpen({"a", "b", "c d"}), "column family b"));
  family_options_.clear();
  ASSERT_TRUE(Ok(TryOpen({"c d", "b", "a"})));
  EXPECT_EQ(GetIn("b", "k"), "v");
  // Creating and dropping.
  ColumnFamilyHandle* handle = nullptr;
  EXPECT_TRUE(
      IsInvalidArgument(db_->CreateColumnFamily(options_, "a", &handle), "a"));
  EXPECT_EQ(handle, nullptr);
  EXPECT_TRUE(
      db_->CreateColumnFamily(options_, "", &handle).IsInvalidArgument());
  EXPECT_TRUE(db_->CreateColumnFamily(options_, "default", &handle)
                  .IsInvalidArgument());
  EXPECT_TRUE(db_->DropColumnFamily(nullptr).IsInvalidArgument());
  EXPECT_TRUE(db_->DropColumnFamily(At("default")).IsInvalidArgument());
  EXPECT_TRUE(
      db_->DropColumnFamily(db_->DefaultColumnFamily()).IsInvalidArgument());
  EXPECT_TRUE(db_->DestroyColumnFamilyHandle(db_->DefaultColumnFamily())
                  .IsInvalidArgument());
  ASSERT_TRUE(Ok(db_->DropColumnFamily(At("a"))));
  EXPECT_TRUE(
      IsInvalidArgument(db_->DropColumnFamily(At("a")), "a: was dropped"));
}

TEST_F(DbFamiliesTest, ListNeedsNoLock) {
  std::vector<std::string> names = {"old"};
  Status s = DB::ListColumnFamilies(options_, path_, &names);
  EXPECT_FALSE(s.ok());
  EXPECT_TRUE(names.empty());
  OpenNew({"z", "y"});
  ASSERT_TRUE(Ok(DB::ListColumnFamilies(options_, path_, &names)));
  EXPECT_EQ(names, (std::vector<std::string>{"default", "z", "y"}));
  ASSERT_TRUE(Ok(db_->DropColumnFamily(At("z"))));
  Close();
  ASSERT_TRUE(Ok(DB::ListColumnFamilies(options_, path_, &names)));
  EXPECT_EQ(names, (std::vector<std::string>{"default", "y"}));
}

TEST_F(DbFamiliesTest, OpenCreatesThoseThatAreMissing) {
  options_.create_missing_column_families = true;
  ASSERT_TRUE(Ok(TryOpen({"a", "b"})));
  PutIn("b", "k", "1");
  Put("k", "0");
  Close();
  ASSERT_TRUE(Ok(TryOpen({"c", "b", "a"})));
  EXPECT_EQ(GetIn("b", "k"), "1");
  EXPECT_EQ(Get("k"), "0");
  EXPECT_EQ(GetIn("c", "k"), "NotFound");
  EXPECT_EQ(At("b")->GetID(), 2u);
  EXPECT_EQ(At("c")->GetID(), 3u);
  PutIn("c", "k", "2");
  ReopenAsKilled();
  EXPECT_EQ(GetIn("c", "k"), "2");
  EXPECT_EQ(At("c")->GetID(), 3u);
  // It is no licence to leave one out.
  Close();
  EXPECT_TRUE(Contains(TryOpen({"c"}).message(), "not opened: a, b"));
  // Nor does a reader create any.
  EXPECT_TRUE(TryOpen({"d"}, true).IsInvalidArgument());
}

TEST_F(DbFamiliesTest, OptionsAreEachFamilysOwn) {
  ColumnFamilyOptions plain = options_, packed = options_;
  plain.compression = CompressionType::kNone;
  plain.write_buffer_size = 128 << 10;
  packed.compression = CompressionType::kZSTD;
  packed.filter_policy = NewBloomFilterPolicy(10);
  packed.write_buffer_size = 4 << 20;
  family_options_ = {{"plain", plain}, {"packed", packed}};
  if (!CompressionSupported(CompressionType::kZSTD)) GTEST_SKIP();
  OpenNew({"plain", "packed"});
  for (int i = 0; i < 500; ++i) {
    PutIn("plain", Key(i), std::string(200, 'x'));
    PutIn("packed", Key(i), std::string(200, 'x'));
  }
  ASSERT_TRUE(Ok(db_->Flush({}, {At("plain"), At("packed")})));
  EXPECT_GT(NumberIn("plain", "varve.total-sst-files-size"),
            4 * NumberIn("packed", "varve.total-sst-files-size"));
  std::string properties;
  ASSERT_TRUE(db_->GetProperty(
      At("packed"), "varve.aggregated-table-properties", &properties));
  EXPECT_FALSE(Contains(properties, "filter bytes=0;")) << properties;
  ASSERT_TRUE(db_->GetProperty(At("plain"), "varve.aggregated-table-properties",
                               &properties));
  EXPECT_TRUE(Contains(properties, "filter bytes=0;")) << properties;
  ColumnFamilyDescriptor descriptor;
  ASSERT_TRUE(Ok(At("packed")->GetDescriptor(&descriptor)));
  EXPECT_EQ(descriptor.name, "packed");
  EXPECT_EQ(descriptor.options.compression, CompressionType::kZSTD);
  EXPECT_EQ(descriptor.options.write_buffer_size, size_t{4} << 20);
  ReopenAll();
  EXPECT_EQ(GetIn("packed", Key(499)), std::string(200, 'x'));
}

TEST_F(DbFamiliesTest, SetOptionsChangesOneFamily) {
  OpenNew({"a", "b"});
  ASSERT_TRUE(
      Ok(db_->SetOptions(At("a"), {{"write_buffer_size", "1M"},
                                   {"disable_auto_compactions", "true"}})));
  const auto buffer_of = [this](const std::string& family) {
    ColumnFamilyDescriptor descriptor;
    EXPECT_TRUE(Ok(At(family)->GetDescriptor(&descriptor)));
    return descriptor.options.write_buffer_size;
  };
  EXPECT_EQ(buffer_of("a"), 1u << 20);
  EXPECT_EQ(buffer_of("b"), 64u << 10);
  EXPECT_EQ(buffer_of("default"), 64u << 10);
  ASSERT_TRUE(Ok(db_->SetOptions({{"write_buffer_size", "2M"}})));
  EXPECT_EQ(buffer_of("default"), 2u << 20);
  EXPECT_EQ(buffer_of("a"), 1u << 20);
  EXPECT_TRUE(
      db_->SetOptions(At("b"), {{"comparator", "x"}}).IsInvalidArgument());
  // From now on the memtable of "a" holds more than the memtable of "b".
  for (int i = 0; i < 2000; ++i) {
    PutIn("a", Key(i), std::string(200, 'x'));
    PutIn("b", Key(i), std::string(200, 'x'));
  }
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(NumberIn("a", "varve.total-sst-files-size"), 0u);
  EXPECT_GT(NumberIn("b", "varve.total-sst-files-size"), 0u);
}

// Keys are folded in every family, on every call.
TEST_F(DbFamiliesTest, KeyCaseHoldsForAllFamilies) {
  options_.key_case = KeyCase::kInsensitive;
  OpenNew({"a"});
  PutIn("a", "KEY", "1");
  Put("Other", "2");
  WriteBatch batch;
  batch.Put(At("a"), "StraSSe", "3");
  batch.Delete(At("a"), "nONE");
  batch.Put("ÄPFEL", "4");
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  EXPECT_EQ(GetIn("a", "key"), "1");
  EXPECT_EQ(GetIn("a", "straße"), "3");
  EXPECT_EQ(Get("äpfel"), "4");
  EXPECT_TRUE(db_->Put({}, At("a"), "\xff", "v").IsInvalidArgument());
  std::vector<std::string> values;
  auto statuses = db_->MultiGet({}, {At("a"), nullptr, At("a")},
                                {"Key", "OTHER", "Other"}, &values);
  EXPECT_EQ(values[0], "1");
  EXPECT_EQ(values[1], "2");
  EXPECT_TRUE(statuses[2].IsNotFound());
  std::vector<std::unique_ptr<Iterator>> iterators;
  ASSERT_TRUE(Ok(db_->NewIterators({}, {At("a"), nullptr}, &iterators)));
  iterators[0]->Seek("KE");
  ASSERT_TRUE(iterators[0]->Valid());
  EXPECT_EQ(iterators[0]->key().ToString(), "key");
  iterators.clear();
  const ReadTransaction read(db_.get());
  std::string value;
  ASSERT_TRUE(Ok(read.Get({}, At("a"), "kEY", &value)));
  EXPECT_EQ(value, "1");
  ASSERT_TRUE(Ok(db_->DeleteRange({}, At("a"), "KA", "KZ")));
  EXPECT_EQ(GetIn("a", "key"), "NotFound");
  ASSERT_TRUE(Ok(read.Get({}, At("a"), "kEY", &value)));
  FlushOne("a");
  const Slice begin("A"), end("Z");
  ASSERT_TRUE(Ok(db_->CompactRange({}, At("a"), &begin, &end)));
  EXPECT_EQ(GetIn("a", "STRASSE"), "3");
}

// Some in memory, some in tables, one from Open and one that is the DB's own.
TEST_F(DbFamiliesTest, TwoHandlesOfOneFamilyAreIndependent) {
  OpenNew({"a"});
  ColumnFamilyHandle* const own = db_->DefaultColumnFamily();
  EXPECT_NE(own, At("default"));
  EXPECT_EQ(own->GetID(), 0u);
  EXPECT_EQ(own->GetName(), "default");
  PutIn("default", "k", "v");
  EXPECT_EQ(GetBy(own, "k"), "v");
  Release("default");
  EXPECT_EQ(GetBy(own, "k"), "v");
  EXPECT_EQ(Get("k"), "v");
  std::vector<ColumnFamilyHandle*> handles = {At("a")};
  ASSERT_TRUE(Ok(db_->CreateColumnFamilies(options_, {"b", "c"}, &handles)));
  ASSERT_EQ(handles.size(), 3u);
  EXPECT_EQ(handles[1]->GetName(), "b");
  const Status s =
      db_->CreateColumnFamilies(options_, {"d", "b", "e"}, &handles);
  EXPECT_TRUE(IsInvalidArgument(s));
  ASSERT_EQ(handles.size(), 4u);
  EXPECT_EQ(handles[3]->GetName(), "d");
  ASSERT_TRUE(Ok(db_->DropColumnFamilies({handles[1], handles[3]})));
  for (size_t i = 1; i < 4; ++i) {
    ASSERT_TRUE(Ok(db_->DestroyColumnFamilyHandle(handles[i])));
  }
  std::vector<std::string> names;
  ASSERT_TRUE(Ok(DB::ListColumnFamilies(options_, path_, &names)));
  EXPECT_EQ(names, (std::vector<std::string>{"default", "a", "c"}));
}

TEST_F(DbFamiliesTest, FiftyFamiliesComeBackFromLogsAndTables) {
  std::vector<std::string> names;
  for (int i = 0; i < 50; ++i) names.push_back("family " + std::to_string(i));
  OpenNew(names);
  WriteBatch batch;
  for (const std::string& name : names) batch.Put(At(name), "k", name);
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  for (size_t i = 0; i < names.size(); i += 3) FlushOne(names[i]);
  for (size_t i = 0; i < names.size(); i += 2) PutIn(names[i], "l", names[i]);
  const auto expect_all = [&] {
    for (size_t i = 0; i < names.size(); ++i) {
      EXPECT_EQ(GetIn(names[i], "k"), names[i]);
      EXPECT_EQ(GetIn(names[i], "l"), i % 2 == 0 ? names[i] : "NotFound");
    }
  };
  expect_all();
  ReopenAsKilled();
  expect_all();
  ReopenAll();
  expect_all();
  EXPECT_EQ(std::ranges::count(Text("varve.column-families"), '\n'), 51);
}

}  // namespace
}  // namespace varve::test
