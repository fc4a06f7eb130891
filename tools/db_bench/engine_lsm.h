// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Cursors and sessions of engines with LevelDB's interface, or one derived from
// it.
//
// `Api` names an engine's types: DB, Iterator, ReadOptions, WriteOptions,
// WriteBatch, Value, which a Get fills, and Family, a pointer that is null if
// the engine gives a session no handles. It also has:
//   ToSlice(Slice), FromSlice(engine's slice), FromStatus(engine's status);
//   NewIterator(DB*, const ReadOptions&, Family), a std::unique_ptr<Iterator>;
//   Get(DB*, const ReadOptions&, Family, key, Value*);
//   Clear(Value*), which releases its contents;
//   Put(WriteBatch*, Family, key, value) and Delete(WriteBatch*, Family, key);
//   SingleDelete(WriteBatch*, Family, key), if the engine has that;
//   DeleteRange(WriteBatch*, Family, begin, end), if the engine has range
//   deletions;
//   Merge(WriteBatch*, Family, key, operand), if it has merges;
//   ApproximateSize(DB*, Family, begin, end, uint64_t*), if it has that.
// For LsmMultiGetSession it also has:
//   Status, and Keys, whose From(const std::vector<Slice>&) gives the engine's;
//   MultiGet(DB*, const ReadOptions&, count, keys, Value*, Status*);
//   MultiGet(DB*, const ReadOptions&, count, Family*, keys, Value*, Status*).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tools/db_bench/engine_adapter.h"

namespace varve {

// The handles of an engine's column families by number. May be empty if the
// database has only one.
template <typename Api>
class LsmFamilies {
 public:
  using Family = typename Api::Family;

  explicit LsmFamilies(std::vector<Family> handles = {})
      : handles_(std::move(handles)) {}

  Family At(uint32_t number) const {
    return handles_.empty() ? nullptr : handles_[number];
  }

 private:
  std::vector<Family> handles_;
};

template <typename Api>
class LsmCursor final : public EngineCursor {
 public:
  LsmCursor(typename Api::DB* db, const typename Api::ReadOptions& options,
            const LsmFamilies<Api>& families)
      : db_(db), options_(options), families_(families) {}

  bool SetBounds(const Slice* lower, const Slice* upper) override {
    if constexpr (requires { options_.iterate_upper_bound = nullptr; }) {
      if (lower != nullptr) lower_ = Api::ToSlice(*lower);
      if (upper != nullptr) upper_ = Api::ToSlice(*upper);
      options_.iterate_lower_bound = lower != nullptr ? &lower_ : nullptr;
      options_.iterate_upper_bound = upper != nullptr ? &upper_ : nullptr;
      return true;
    } else {
      return EngineCursor::SetBounds(lower, upper);
    }
  }
  void Renew() override {
    iterator_ = Api::NewIterator(db_, options_, families_.At(family_));
  }
  bool SeekToFirst() override {
    iterator_->SeekToFirst();
    return Arrive();
  }
  bool SeekToLast() override {
    iterator_->SeekToLast();
    return Arrive();
  }
  bool Seek(const Slice& target) override {
    iterator_->Seek(Api::ToSlice(target));
    return Arrive();
  }
  bool Next() override {
    iterator_->Next();
    return Arrive();
  }
  bool Prev() override {
    iterator_->Prev();
    return Arrive();
  }
  Status status() const override {
    return Api::FromStatus(iterator_->status());
  }

 private:
  bool Arrive() {
    if (!iterator_->Valid()) return false;
    key = Api::FromSlice(iterator_->key());
    value = Api::FromSlice(iterator_->value());
    return true;
  }

  typename Api::DB* const db_;
  typename Api::ReadOptions options_;
  std::remove_cvref_t<decltype(Api::ToSlice(Slice()))> lower_;
  std::remove_cvref_t<decltype(Api::ToSlice(Slice()))> upper_;
  const LsmFamilies<Api> families_;
  std::unique_ptr<typename Api::Iterator> iterator_;
};

template <typename Api>
class LsmSession : public EngineSession {
 public:
  LsmSession(typename Api::DB* db,
             const typename Api::ReadOptions& read_options,
             const typename Api::WriteOptions& write_options,
             const std::vector<typename Api::Family>& families = {})
      : db_(db),
        read_options_(read_options),
        families_(families),
        write_options_(write_options) {}
  ~LsmSession() override {
    if (snapshot_ != nullptr) db_->ReleaseSnapshot(snapshot_);
  }

  bool HoldSnapshot() override {
    if (snapshot_ == nullptr) snapshot_ = db_->GetSnapshot();
    return true;
  }

  Lookup Get(const Slice& key, Slice* value) override {
    Api::Clear(&value_);
    const auto status =
        Api::Get(db_, read_options_, family(), Api::ToSlice(key), &value_);
    if (status.ok()) {
      *value = Api::FromSlice(value_);
      return Lookup::kFound;
    }
    if (status.IsNotFound()) return Lookup::kMissing;
    error_ = Api::FromStatus(status);
    return Lookup::kError;
  }

  std::unique_ptr<EngineCursor> NewCursor() override {
    return std::make_unique<LsmCursor<Api>>(db_, read_options_, families_);
  }

  void Put(const Slice& key, const Slice& value) override {
    Api::Put(&batch_, family(), Api::ToSlice(key), Api::ToSlice(value));
  }
  void Delete(const Slice& key) override {
    Api::Delete(&batch_, family(), Api::ToSlice(key));
  }
  bool SingleDelete(const Slice& key) override {
    if constexpr (requires {
                    Api::SingleDelete(&batch_, family(), Api::ToSlice(key));
                  }) {
      Api::SingleDelete(&batch_, family(), Api::ToSlice(key));
      return true;
    } else {
      return false;
    }
  }
  bool DeleteRange(const Slice& begin, const Slice& end) override {
    if constexpr (requires {
                    Api::DeleteRange(&batch_, family(), Api::ToSlice(begin),
                                     Api::ToSlice(end));
                  }) {
      Api::DeleteRange(&batch_, family(), Api::ToSlice(begin),
                       Api::ToSlice(end));
      return true;
    } else {
      return false;
    }
  }
  bool Merge(const Slice& key, const Slice& operand) override {
    if constexpr (requires {
                    Api::Merge(&batch_, family(), Api::ToSlice(key),
                               Api::ToSlice(operand));
                  }) {
      Api::Merge(&batch_, family(), Api::ToSlice(key), Api::ToSlice(operand));
      return true;
    } else {
      return false;
    }
  }
  Status ApproximateSize(const Slice& begin, const Slice& end,
                         uint64_t* bytes) override {
    if constexpr (requires {
                    Api::ApproximateSize(db_, family(), Api::ToSlice(begin),
                                         Api::ToSlice(end), bytes);
                  }) {
      return Api::FromStatus(Api::ApproximateSize(
          db_, family(), Api::ToSlice(begin), Api::ToSlice(end), bytes));
    } else {
      return EngineSession::ApproximateSize(begin, end, bytes);
    }
  }
  Status Commit() override {
    const auto status = db_->Write(write_options_, &batch_);
    batch_.Clear();
    return Api::FromStatus(status);
  }

 protected:
  typename Api::Family family() const { return families_.At(family_); }

  typename Api::DB* const db_;
  const typename Api::ReadOptions read_options_;
  const LsmFamilies<Api> families_;

 private:
  const typename Api::WriteOptions write_options_;
  decltype(std::declval<typename Api::DB&>().GetSnapshot()) snapshot_ = nullptr;
  typename Api::Value value_;
  typename Api::WriteBatch batch_;
};

// A session of an engine that has MultiGet.
template <typename Api>
class LsmMultiGetSession : public LsmSession<Api> {
 public:
  using LsmSession<Api>::LsmSession;

  bool MultiGet(const std::vector<Slice>& keys, size_t* found,
                uint64_t* value_bytes) override {
    Prepare(keys.size());
    Api::MultiGet(this->db_, this->read_options_, keys.size(), keys_.From(keys),
                  values_.data(), statuses_.data());
    return Finish(keys.size(), found, value_bytes);
  }
  bool GetAtOnce(const std::vector<Slice>& keys,
                 std::vector<std::string>* values) override {
    Prepare(keys.size());
    Api::MultiGet(this->db_, this->read_options_, keys.size(), keys_.From(keys),
                  values_.data(), statuses_.data());
    for (size_t i = 0; i < keys.size(); ++i) {
      const Slice value = Api::FromSlice(values_[i]);
      (*values)[i] = statuses_[i].ok() ? value.ToString() : std::string();
    }
    size_t found;
    uint64_t value_bytes;
    return Finish(keys.size(), &found, &value_bytes);
  }
  bool MultiGet(const std::vector<uint32_t>& families,
                const std::vector<Slice>& keys, size_t* found,
                uint64_t* value_bytes) override {
    Prepare(keys.size());
    families_of_keys_.clear();
    for (const uint32_t family : families) {
      families_of_keys_.push_back(this->families_.At(family));
    }
    Api::MultiGet(this->db_, this->read_options_, keys.size(),
                  families_of_keys_.data(), keys_.From(keys), values_.data(),
                  statuses_.data());
    return Finish(keys.size(), found, value_bytes);
  }

 private:
  void Prepare(size_t count) {
    if (values_.size() >= count) return;
    values_ = std::vector<typename Api::Value>(count);
    statuses_.resize(count);
  }
  bool Finish(size_t count, size_t* found, uint64_t* value_bytes) {
    *found = 0;
    *value_bytes = 0;
    for (size_t i = 0; i < count; ++i) {
      if (statuses_[i].ok()) {
        ++*found;
        *value_bytes += values_[i].size();
      } else if (!statuses_[i].IsNotFound()) {
        this->error_ = Api::FromStatus(statuses_[i]);
        return false;
      }
      Api::Clear(&values_[i]);
    }
    return true;
  }

  typename Api::Keys keys_;
  std::vector<typename Api::Family> families_of_keys_;
  std::vector<typename Api::Value> values_;
  std::vector<typename Api::Status> statuses_;
};

}  // namespace varve
