// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a DB behaves like a map: Get returns put values, deleted keys are not
// found, batches are whole and in order. Method: each property is checked in
// the memtable, in tables after Flush, after compaction and after reopening.

#include <sys/mman.h>

#include "db/memtable/memtable.h"
#include "db/write/write_batch_internal.h"
#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "util/bytes/coding.h"

namespace varve::test {
namespace {

class DbBasicTest : public DbTestBase {
 protected:
  void SetUp() override { Open(); }

  // Runs `check` on the same data at each of its stations.
  void AtEachStation(const std::function<void()>& check) {
    const auto at = [&](const char* station) {
      SCOPED_TRACE(station);
      check();
    };
    at("in the memtable");
    Flush();
    at("after a flush");
    Reopen();
    at("after reopening");
    CompactAll();
    at("after compaction");
    Reopen();
    at("after compaction and reopening");
  }
};

TEST_F(DbBasicTest, GetsPutValues) {
  Put("a", "1");
  Put("b", "2");
  AtEachStation([&] {
    EXPECT_EQ(Get("a"), "1");
    EXPECT_EQ(Get("b"), "2");
    EXPECT_EQ(Get("c"), "NotFound");
    EXPECT_EQ(Get(""), "NotFound");
    EXPECT_EQ(Get("aa"), "NotFound");
  });
}

TEST_F(DbBasicTest, LaterWriteWins) {
  Put("a", "old");
  Put("b", "old");
  Put("c", "old");
  Flush();
  Put("a", "new");
  Delete("b");
  AtEachStation([&] {
    EXPECT_EQ(Get("a"), "new");
    EXPECT_EQ(Get("b"), "NotFound");
    EXPECT_EQ(Get("c"), "old");
    EXPECT_TRUE(HasEntries(db_.get(), {{"a", "new"}, {"c", "old"}}));
  });
}

TEST_F(DbBasicTest, PutAfterDeleteIsFound) {
  Put("a", "1");
  Flush();
  Delete("a");
  Flush();
  Put("a", "2");
  AtEachStation([&] { EXPECT_EQ(Get("a"), "2"); });
}

TEST_F(DbBasicTest, DeletesOfMissingKeysAreFine) {
  Delete("nothing");
  Put("a", "1");
  Delete("b");
  AtEachStation([&] { EXPECT_TRUE(HasEntries(db_.get(), {{"a", "1"}})); });
}

TEST_F(DbBasicTest, KeysAndValuesMayBeEmpty) {
  Put("", "value of the empty key");
  Put("empty value", "");
  AtEachStation([&] {
    EXPECT_EQ(Get(""), "value of the empty key");
    EXPECT_EQ(Get("empty value"), "");
    EXPECT_TRUE(HasEntries(
        db_.get(), {{"", "value of the empty key"}, {"empty value", ""}}));
  });
  Delete("");
  AtEachStation([&] {
    EXPECT_EQ(Get(""), "NotFound");
    EXPECT_TRUE(HasEntries(db_.get(), {{"empty value", ""}}));
  });
}

// A slice of a default std::string_view points nowhere.
TEST_F(DbBasicTest, EmptyKeysAndValuesMayPointNowhere) {
  const Slice nowhere(nullptr, 0);
  const auto check = [&](const std::string& value) {
    AtEachStation([&] {
      std::string found;
      ASSERT_TRUE(db_->Get(ReadOptions(), nowhere, &found).ok());
      EXPECT_EQ(found, value);
      std::vector<std::string> values;
      for (const Status& s :
           db_->MultiGet(ReadOptions(), {nowhere, nowhere}, &values)) {
        EXPECT_TRUE(s.ok());
      }
      EXPECT_EQ(values, std::vector<std::string>(2, value));
      const std::unique_ptr<Iterator> iterator(db_->NewIterator(ReadOptions()));
      iterator->Seek(nowhere);
      EXPECT_TRUE(iterator->Valid());
      iterator->SeekForPrev(nowhere);
      EXPECT_TRUE(iterator->Valid());
    });
  };
  ASSERT_TRUE(db_->Put(WriteOptions(), nowhere, nowhere).ok());
  check("");
  ASSERT_TRUE(db_->Put(WriteOptions(), nowhere, "value").ok());
  check("value");
  WriteBatch batch;
  batch.Put(nowhere, nowhere);
  batch.PutLogData(nowhere);
  ASSERT_TRUE(db_->Write(WriteOptions(), &batch).ok());
  check("");
  batch.Clear();
  batch.Delete(nowhere);
  batch.DeleteRange(nowhere, nowhere);
  ASSERT_TRUE(db_->Write(WriteOptions(), &batch).ok());
  ASSERT_TRUE(db_->DeleteRange(WriteOptions(), nowhere, nowhere).ok());
  AtEachStation([&] { EXPECT_EQ(Get(""), "NotFound"); });
}

TEST_F(DbBasicTest, KeysMayHoldAnyByte) {
  EntryList expected;
  for (int a = 0; a < 256; a += 15) {
    const std::string first(1, static_cast<char>(a));
    expected.emplace_back(first, "x" + first);
    for (int b = 0; b < 256; b += 51) {
      const std::string both = first + static_cast<char>(b);
      expected.emplace_back(both, both + first);
    }
  }
  for (const auto& [key, value] : expected) Put(key, value);
  AtEachStation([&] { EXPECT_TRUE(HasEntries(db_.get(), expected)); });
}

TEST_F(DbBasicTest, KeepsValuesLargerThanTheWriteBuffer) {
  Rng rng(1);
  Entries expected;
  for (int i = 0; i < 4; i++) {
    expected[Key(i)] = rng.Bytes((1 << 20) + static_cast<size_t>(i));
    expected[Key(i) + "small"] = "s";
  }
  expected[std::string(20000, 'k')] = "long key";
  for (const auto& [key, value] : expected) Put(key, value);
  AtEachStation([&] { EXPECT_TRUE(HasEntries(db_.get(), ToList(expected))); });
}

TEST_F(DbBasicTest, KeepsAllVersionsOfOneKeyApart) {
  // More versions of one key than fit in a block or a write buffer.
  const std::string padding(100, 'p');
  std::vector<const Snapshot*> snapshots;
  for (int i = 0; i < 3000; i++) {
    Put("key", std::to_string(i) + padding);
    if (i % 100 == 0) snapshots.push_back(db_->GetSnapshot());
  }
  CompactAll();
  for (size_t i = 0; i < snapshots.size(); i++) {
    EXPECT_EQ(Get("key", snapshots[i]), std::to_string(i * 100) + padding);
    db_->ReleaseSnapshot(snapshots[i]);
  }
  EXPECT_EQ(Get("key"), "2999" + padding);
}

TEST_F(DbBasicTest, EmptyDatabaseHasNothing) {
  AtEachStation([&] {
    EXPECT_EQ(Get("a"), "NotFound");
    EXPECT_TRUE(HasEntries(db_.get(), {}));
  });
}

TEST_F(DbBasicTest, GetClearsTheValueWhenNothingIsFound) {
  std::string value = "left over";
  EXPECT_TRUE(db_->Get({}, "a", &value).IsNotFound());
  EXPECT_EQ(value, "");
  PinnableSlice pinned;
  pinned.PinSelf("left over");
  EXPECT_TRUE(db_->Get({}, "a", &pinned).IsNotFound());
  EXPECT_EQ(pinned.size(), 0u);
}

TEST_F(DbBasicTest, PinnedValueOutlivesItsSource) {
  const std::string value(3000, 'v');
  Put("a", value);
  Put("b", "other");
  Flush();
  PinnableSlice pinned;
  ASSERT_TRUE(Ok(db_->Get({}, "a", &pinned)));
  Delete("a");
  CompactAll();
  EXPECT_EQ(pinned.ToString(), value);
  // Using one slice again lets go of what it held.
  ASSERT_TRUE(Ok(db_->Get({}, "b", &pinned)));
  EXPECT_EQ(pinned.ToString(), "other");
}

TEST(PinnableSliceTest, MovesItsRemainingBytes) {
  static std::string pinned = "HEADERpayload";
  const std::string longer(100, 'x');
  for (const bool is_pinned : {false, true}) {
    for (const std::string& payload : {std::string("payload"), longer}) {
      pinned = "HEADER" + payload;
      PinnableSlice from;
      if (is_pinned) {
        from.PinSlice(
            pinned, [](void*) {}, nullptr);
      } else {
        from.PinSelf(pinned);
      }
      from.remove_prefix(6);
      PinnableSlice to = std::move(from);
      EXPECT_EQ(to.ToString(), payload);
      EXPECT_EQ(to.IsPinned(), is_pinned);
      EXPECT_TRUE(from.empty());  // NOLINT(bugprone-use-after-move)
      to = PinnableSlice();
      EXPECT_TRUE(to.empty());
    }
  }
}

TEST(PinnableSliceTest, CopiesItsContents) {
  std::string pinned = "HEADERpayload";
  PinnableSlice slice;
  slice.PinSlice(
      pinned, [](void* of) { static_cast<std::string*>(of)->assign(13, '-'); },
      &pinned);
  slice.remove_prefix(6);
  slice.PinSelf(slice);
  EXPECT_EQ(slice.ToString(), "payload");
  EXPECT_EQ(pinned, "-------------");
  slice.remove_prefix(3);
  slice.PinSelf(slice);
  EXPECT_EQ(slice.ToString(), "load");
}

TEST_F(DbBasicTest, MultiGetAnswersEachKeyInPlace) {
  for (int i = 0; i < 3000; i++) Put(Key(i), "value" + std::to_string(i));
  for (int i = 0; i < 3000; i += 3) Delete(Key(i));
  AtEachStation([&] {
    std::vector<std::string> names;
    for (int i : {2999, 1, 3, 1, 5000, 0, 2, 1, -1, 1500, 1501}) {
      names.push_back(Key(i));
    }
    names.push_back("");
    std::vector<Slice> keys(names.begin(), names.end());
    std::vector<std::string> values(1, "left over");
    std::vector<Status> statuses = db_->MultiGet({}, keys, &values);
    ASSERT_EQ(statuses.size(), keys.size());
    ASSERT_EQ(values.size(), keys.size());
    for (size_t i = 0; i < keys.size(); i++) {
      const std::string single = Get(names[i]);
      EXPECT_EQ(statuses[i].IsNotFound() ? "NotFound" : values[i], single)
          << names[i] << ": " << statuses[i].ToString();
    }
    EXPECT_EQ(values[1], "value1");
    EXPECT_EQ(values[1], values[7]);
  });
}

TEST_F(DbBasicTest, MultiGetOfNothingAndOfManyWorks) {
  db_->MultiGet({}, 0, nullptr, static_cast<PinnableSlice*>(nullptr), nullptr);
  std::vector<std::string> names;
  for (int i = 0; i < 5000; i++) {
    names.push_back(Key(i));
    Put(names.back(), names.back());
  }
  Flush();
  std::vector<Slice> keys(names.rbegin(), names.rend());
  std::vector<PinnableSlice> values(keys.size());
  std::vector<Status> statuses(keys.size());
  db_->MultiGet({}, keys.size(), keys.data(), values.data(), statuses.data());
  for (size_t i = 0; i < keys.size(); i++) {
    ASSERT_TRUE(Ok(statuses[i]));
    ASSERT_EQ(values[i].ToString(), keys[i].ToString());
  }
}

TEST_F(DbBasicTest, MultiGetReadsTheSnapshot) {
  Put("a", "1");
  Put("b", "1");
  const Snapshot* snapshot = db_->GetSnapshot();
  Put("a", "2");
  Delete("b");
  Put("c", "2");
  Flush();
  ReadOptions options{.snapshot = snapshot};
  std::vector<std::string> values;
  std::vector<Status> s = db_->MultiGet(options, {"a", "b", "c"}, &values);
  EXPECT_EQ(values[0], "1");
  EXPECT_EQ(values[1], "1");
  EXPECT_TRUE(s[2].IsNotFound());
  db_->ReleaseSnapshot(snapshot);
}

TEST_F(DbBasicTest, BatchTakesEffectInOrder) {
  Put("b", "before");
  WriteBatch batch;
  batch.Put("a", "1");
  batch.Delete("a");
  batch.Put("a", "2");
  batch.Delete("b");
  batch.Put("c", "1");
  batch.Delete("c");
  batch.PutLogData("a note");
  EXPECT_EQ(batch.Count(), 6u);
  const uint64_t before = db_->GetLatestSequenceNumber();
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  EXPECT_EQ(db_->GetLatestSequenceNumber(), before + 6);
  AtEachStation([&] { EXPECT_TRUE(HasEntries(db_.get(), {{"a", "2"}})); });
}

TEST_F(DbBasicTest, EmptyBatchChangesNothing) {
  WriteBatch batch;
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  batch.PutLogData("only a note");
  ASSERT_TRUE(Ok(db_->Write({.sync = true}, &batch)));
  EXPECT_EQ(db_->GetLatestSequenceNumber(), 0u);
  Put("a", "1");
  AtEachStation([&] { EXPECT_TRUE(HasEntries(db_.get(), {{"a", "1"}})); });
}

TEST_F(DbBasicTest, BatchCanBeWrittenTwiceAndCleared) {
  WriteBatch batch;
  batch.Put("a", "1");
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  Delete("a");
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  EXPECT_EQ(Get("a"), "1");
  batch.Clear();
  EXPECT_EQ(batch.Count(), 0u);
  batch.Put("b", "2");
  WriteBatch other;
  other.Put("b", "3");
  other.Delete("a");
  batch.Append(other);
  EXPECT_EQ(batch.Count(), 3u);
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  EXPECT_TRUE(HasEntries(db_.get(), {{"b", "3"}}));
}

TEST_F(DbBasicTest, BatchThatWasMovedFromIsEmpty) {
  WriteBatch batch;
  batch.Put("a", std::string(100, 'a'));
  WriteBatch other(std::move(batch));
  // That it may be used is what is tested here.
  // NOLINTBEGIN(bugprone-use-after-move)
  EXPECT_EQ(batch.Count(), 0u);
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  batch.Put("b", "b");
  batch.DeleteRange("x", "y");
  other = std::move(batch);
  EXPECT_EQ(other.Count(), 2u);
  batch.Put("c", "c");
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  ASSERT_TRUE(Ok(db_->Write({}, &other)));
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_EQ(Get("a"), "NotFound");
  EXPECT_EQ(Get("b"), "b");
  EXPECT_EQ(Get("c"), "c");
  WriteBatch& self = other;
  other = std::move(self);
  EXPECT_EQ(other.Count(), 2u);
}

TEST_F(DbBasicTest, SingleDeleteRemovesAKeyPutOnce) {
  Put("a", "1");
  Put("b", "1");
  Put("c", "1");
  Flush();
  WriteBatch batch;
  batch.SingleDelete("a");
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  ASSERT_TRUE(Ok(db_->SingleDelete({}, "c")));
  AtEachStation([&] {
    EXPECT_EQ(Get("a"), "NotFound");
    EXPECT_TRUE(HasEntries(db_.get(), {{"b", "1"}}));
  });
}

TEST_F(DbBasicTest, DamagedBatchIsRefusedAndChangesNothing) {
  WriteBatch good;
  good.Put("a", "1");
  good.Put("b", "2");
  for (size_t length = 0; length < good.Data().size(); length++) {
    WriteBatch cut(good.Data().substr(0, length));
    EXPECT_FALSE(db_->Write({}, &cut).ok()) << length;
  }
  std::string unknown_tag = good.Data();
  unknown_tag[12] = 0x55;
  WriteBatch unknown(unknown_tag);
  EXPECT_FALSE(db_->Write({}, &unknown).ok());
  std::string wrong_count = good.Data();
  wrong_count[8] = 3;
  WriteBatch miscounted(wrong_count);
  EXPECT_FALSE(db_->Write({}, &miscounted).ok());
  // None of it makes the DB refuse good writes or keep a part.
  EXPECT_TRUE(HasEntries(db_.get(), {}));
  ASSERT_TRUE(Ok(db_->Write({}, &good)));
  AtEachStation([&] {
    EXPECT_TRUE(HasEntries(db_.get(), {{"a", "1"}, {"b", "2"}}));
  });
}

// Address space without memory: the code must not copy it.
class Emptiness {
 public:
  explicit Emptiness(size_t size) : size_(size) {
    data_ = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(data_, MAP_FAILED);
  }
  ~Emptiness() { munmap(data_, size_); }
  Emptiness(const Emptiness&) = delete;
  Emptiness& operator=(const Emptiness&) = delete;

  char* data() const { return static_cast<char*>(data_); }

 private:
  void* data_;
  const size_t size_;
};

TEST_F(DbBasicTest, UpdatesThatNoTableCanHoldAreRefused) {
  const Emptiness empty((size_t{4} << 30) + 1);
  // The size of a key and its value.
  const size_t longest = kMaxEntryBytes - kTrailerSize;
  EXPECT_TRUE(EntryFits(1, longest - 1));
  EXPECT_TRUE(EntryFits(longest, 0));
  EXPECT_FALSE(EntryFits(longest, 1));
  EXPECT_FALSE(EntryFits(longest + 1, 0));
  EXPECT_FALSE(EntryFits(1, SIZE_MAX));
  EXPECT_FALSE(EntryFits(SIZE_MAX, 1));
  for (const size_t size : {longest + 1, (size_t{4} << 30) + 1}) {
    const Slice huge(empty.data(), size);
    const Slice with_key(empty.data(), size - 1);
    ASSERT_TRUE(IsInvalidArgument(db_->Put({}, "k", with_key), "3 GiB"));
    EXPECT_TRUE(db_->Put({}, with_key, "v").IsInvalidArgument());
    EXPECT_TRUE(db_->Delete({}, huge).IsInvalidArgument());
    EXPECT_TRUE(db_->SingleDelete({}, huge).IsInvalidArgument());
    EXPECT_TRUE(db_->DeleteRange({}, "", huge).IsInvalidArgument());
    WriteBatch batch;
    batch.Put("a", "1");
    batch.DeleteRange(Slice(empty.data(), longest / 2), with_key);
    EXPECT_TRUE(db_->Write({}, &batch).IsInvalidArgument());
    // Not by way of another batch, either.
    WriteBatch other;
    other.Append(batch);
    EXPECT_TRUE(db_->Write({}, &other).IsInvalidArgument());
  }
  EXPECT_TRUE(HasEntries(db_.get(), {}));
  Put("a", "1");
  AtEachStation([&] { EXPECT_TRUE(HasEntries(db_.get(), {{"a", "1"}})); });
}

// As they may come from elsewhere: from bytes, or from another engine's log.
TEST_F(DbBasicTest, BytesOfUpdatesThatNoTableCanHoldAreRefused) {
  const size_t longest = kMaxEntryBytes - kTrailerSize;
  const Emptiness empty(longest + 100);
  const auto read = [&](const std::string& before_value, size_t value_size) {
    std::string bytes(BatchReader::kHeaderSize, '\0');
    bytes[8] = 1;
    bytes += before_value;
    PutVarint32(&bytes, static_cast<uint32_t>(value_size));
    memcpy(empty.data(), bytes.data(), bytes.size());
    const Slice batch(empty.data(), bytes.size() + value_size);
    BatchReader reader;
    EXPECT_TRUE(Ok(reader.Init(batch)));
    BatchRecord record;
    bool done = false;
    Status s = reader.Next(&record, &done);
    if (s.ok() || ::testing::Test::HasFailure()) return s;
    const InternalKeyComparator comparator(BytewiseComparator());
    auto* const memtable = new MemTable(&comparator, 0, 64 << 10);
    EXPECT_EQ(InsertBatchInto(batch, memtable).code(), s.code());
    EXPECT_TRUE(memtable->empty());
    if (memtable->Unref()) delete memtable;
    return s;
  };
  for (const char* const tag : {"\x01", "\x0F"}) {  // A put, a range deletion.
    const std::string before_value = std::string(tag) + "\x01k";
    EXPECT_TRUE(Ok(read(before_value, longest - 1)));
    EXPECT_TRUE(IsNotSupported(read(before_value, longest), "3 GiB"));
  }
  EXPECT_TRUE(read(std::string(1, '\0'), longest + 1).IsNotSupported());
  // Updates that do not go to this database's tables may have any size.
  EXPECT_TRUE(Ok(read("\x05\x07\x01k", longest)));
  EXPECT_TRUE(Ok(read("\x03", longest + 1)));
}

// The same work with each kind of compression, with and without a filter.
class DbCompressionTest
    : public DbTestBase,
      public ::testing::WithParamInterface<std::pair<int, bool>> {};

TEST_P(DbCompressionTest, KeepsEverythingThroughLevels) {
  const auto& [name, type] =
      AllCompressions()[static_cast<size_t>(GetParam().first)];
  SCOPED_TRACE(name);
  options_.compression = type;
  if (GetParam().second) options_.filter_policy = NewBloomFilterPolicy(10);
  Open();
  ModelDb model;
  Rng rng(7);
  for (int i = 0; i < 6000; i++) {
    const std::string key = Key(rng.Between(0, 2500));
    if (rng.OneIn(4)) {
      model.Delete(key);
      Delete(key);
    } else {
      const std::string value = rng.Bytes(rng.Below(200));
      model.Put(key, value);
      Put(key, value);
    }
  }
  EXPECT_TRUE(HasEntries(db_.get(), ToList(model.entries())));
  Flush();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_TRUE(HasEntries(db_.get(), ToList(model.entries())));
  EXPECT_GT(Tables(), TablesAt(0)) << "nothing was compacted";
  ASSERT_TRUE(Ok(db_->VerifyChecksum()));
  Reopen();
  EXPECT_TRUE(HasEntries(db_.get(), ToList(model.entries())));
  CompactAll();
  EXPECT_TRUE(HasEntries(db_.get(), ToList(model.entries())));
  for (int i = 2501; i < 3500; i++) ASSERT_EQ(Get(Key(i)), "NotFound");
  ASSERT_TRUE(Ok(db_->VerifyChecksum()));
}

INSTANTIATE_TEST_SUITE_P(
    All, DbCompressionTest, ::testing::ValuesIn([] {
      std::vector<std::pair<int, bool>> all;
      for (size_t i = 0; i < AllCompressions().size(); ++i) {
        all.emplace_back(static_cast<int>(i), false);
        all.emplace_back(static_cast<int>(i), true);
      }
      return all;
    }()),
    [](const auto& test) {
      return AllCompressions()[static_cast<size_t>(test.param.first)].first +
             std::string(test.param.second ? "Bloom" : "");
    });

// ---- Column families --------------------------------------------------------

// A batch of the one update, as RocksDB writes it.
std::string BatchOf(uint8_t tag, uint32_t family, bool has_value) {
  std::string batch(8, '\0');
  PutFixed32(&batch, 1);
  batch.push_back(static_cast<char>(tag));
  PutVarint32(&batch, family);
  PutLengthPrefixedSlice(&batch, "key");
  if (has_value) PutLengthPrefixedSlice(&batch, "value");
  return batch;
}

struct FamilyTag {
  uint8_t tag;
  bool has_value;
  bool known;  // To Varve, in its own family.
};

constexpr FamilyTag kFamilyTags[] = {
    {0x04, false, true},  // Delete
    {0x05, true, true},   // Put
    {0x06, true, true},   // Merge
    {0x08, false, true},  // Single delete
    {0x0E, true, true},   // Range deletion
    {0x10, true, false},  // Blob index
    {0x17, true, false},  // Wide columns
    {0x19, true, false},  // Preferred time
};

// A write to another column family is refused, not skipped, since the caller
// expects it to be stored.
TEST_F(DbBasicTest, UpdateOfAnotherFamilyIsRefusedWhole) {
  class Counter : public WriteBatch::Handler {
   public:
    void Put(const Slice&, const Slice&) override { ++updates; }
    void Delete(const Slice&) override { ++updates; }
    void SingleDelete(const Slice&) override { ++updates; }
    void Merge(const Slice&, const Slice&) override { ++updates; }
    void DeleteRange(const Slice&, const Slice&) override { ++updates; }
    int updates = 0;
  };
  for (const KeyCase key_case : {KeyCase::kSensitive, KeyCase::kInsensitive}) {
    db_.reset();
    std::filesystem::remove_all(path_);
    options_.key_case = key_case;
    Open();
    Put("key", "old");
    const SequenceNumber last = db_->GetLatestSequenceNumber();
    for (const FamilyTag& tag : kFamilyTags) {
      SCOPED_TRACE(int{tag.tag});
      for (const uint32_t family : {1u, 127u, 128u, UINT32_MAX}) {
        WriteBatch batch(BatchOf(tag.tag, family, tag.has_value));
        Counter counter;
        // The handler knows only the default family.
        const Status iterated = batch.Iterate(&counter);
        EXPECT_EQ(iterated.IsInvalidArgument(), tag.known);
        EXPECT_EQ(iterated.IsNotSupported(), !tag.known);
        EXPECT_EQ(counter.updates, 0);
        // The updates before it in the batch are refused, too.
        WriteBatch two;
        two.Put("first", "1");
        two.Append(batch);
        for (WriteBatch* const each : {&batch, &two}) {
          const Status s = db_->Write({}, each);
          EXPECT_EQ(s.IsInvalidArgument(), tag.known) << s.ToString();
          EXPECT_EQ(s.IsNotSupported(), !tag.known) << s.ToString();
        }
      }
      WriteBatch ours(BatchOf(tag.tag, 0, tag.has_value));
      Counter counter;
      const Status s = ours.Iterate(&counter);
      EXPECT_EQ(counter.updates, tag.known ? 1 : 0);
      EXPECT_TRUE(tag.known ? s.ok() : s.IsNotSupported()) << s.ToString();
      if (!tag.known) {
        EXPECT_TRUE(db_->Write({}, &ours).IsNotSupported());
      }
    }
    EXPECT_EQ(db_->GetLatestSequenceNumber(), last);
    EXPECT_TRUE(HasEntries(db_.get(), {{"key", "old"}}));
    Reopen();
    EXPECT_TRUE(HasEntries(db_.get(), {{"key", "old"}}));
  }
}

// In a log, the family no longer exists, or Open would have refused it.
TEST(BatchReaderTest, UpdatesOfOtherFamiliesArePassedOver) {
  const InternalKeyComparator comparator(BytewiseComparator());
  for (const FamilyTag& tag : kFamilyTags) {
    SCOPED_TRACE(int{tag.tag});
    auto* const memtable = new MemTable(&comparator, 1, 64 << 10);
    for (const uint32_t family : {1u, 300u, UINT32_MAX}) {
      const std::string batch = BatchOf(tag.tag, family, tag.has_value);
      EXPECT_TRUE(Ok(InsertBatchInto(batch, memtable)));
      for (size_t size = 13; size < batch.size(); ++size) {
        const Slice cut(batch.data(), size);
        EXPECT_TRUE(InsertBatchInto(cut, memtable).IsCorruption()) << size;
      }
    }
    EXPECT_TRUE(memtable->empty());
    EXPECT_EQ(InsertBatchInto(BatchOf(tag.tag, 0, tag.has_value), memtable)
                  .IsNotSupported(),
              !tag.known);
    if (memtable->Unref()) delete memtable;
  }
}

}  // namespace
}  // namespace varve::test
