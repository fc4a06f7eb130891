// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/wal/prepared_set.h"

#include <algorithm>

#include "util/bytes/coding.h"

namespace varve {

namespace {

constexpr size_t kHeaderSize = BatchReader::kHeaderSize;

void AppendHeader(std::string* out, SequenceNumber sequence, uint32_t count) {
  char header[kHeaderSize];
  WriteBatchInternal::EncodeHeader(sequence, count, header);
  out->append(header, kHeaderSize);
}

void AppendMark(std::string* out, BatchTag tag, const Slice& name) {
  out->push_back(static_cast<char>(tag));
  PutLengthPrefixedSlice(out, name);
}

}  // namespace

Status ReadSection(const Slice& records, uint32_t count,
                   const std::function<Status(const BatchRecord&)>& check,
                   WriteBatch* updates) {
  std::string bytes;
  AppendHeader(&bytes, 0, count);
  bytes.append(records.data(), records.size());
  *updates = WriteBatch(std::move(bytes));
  BatchReader reader;
  BatchRecord record;
  bool done = false;
  Status status = reader.Init(updates->Data());
  while (status.ok()) {
    status = reader.Next(&record, &done);
    if (!status.ok() || done) break;
    if (record.is_log_data) continue;
    status = check(record);
    if (record.family == 0) continue;
    WriteBatchInternal::CountFamily(updates, record.family,
                                    record.key.size() + record.value.size());
  }
  return status;
}

PreparedRecord PreparedRecord::OfPrepare(const Slice& name,
                                         const WriteBatch& updates,
                                         SequenceNumber sequence, bool moves) {
  PreparedRecord record;
  AppendHeader(&record.before_, sequence, updates.Count());
  if (moves) AppendMark(&record.before_, BatchTag::kRollback, name);
  record.before_.push_back(static_cast<char>(BatchTag::kBeginPrepare));
  record.updates_ = updates.Data();
  record.updates_.remove_prefix(kHeaderSize);
  AppendMark(&record.after_, BatchTag::kEndPrepare, name);
  return record;
}

PreparedRecord PreparedRecord::OfCommit(const Slice& name,
                                        const WriteBatch* first,
                                        SequenceNumber sequence) {
  PreparedRecord record;
  AppendHeader(&record.before_, sequence,
               first == nullptr ? 0 : first->Count());
  if (first != nullptr) {
    record.updates_ = first->Data();
    record.updates_.remove_prefix(kHeaderSize);
  }
  AppendMark(&record.after_, BatchTag::kCommit, name);
  return record;
}

PreparedRecord PreparedRecord::OfRollback(const Slice& name,
                                          SequenceNumber sequence) {
  PreparedRecord record;
  AppendHeader(&record.before_, sequence, 0);
  AppendMark(&record.after_, BatchTag::kRollback, name);
  return record;
}

std::shared_ptr<PreparedSet::Held> PreparedSet::Find(const Slice& name) const {
  const auto found = sections_.find(std::string_view(name.data(), name.size()));
  return found != sections_.end() ? found->second : nullptr;
}

void PreparedSet::Add(PreparedSection section, uint64_t log) {
  std::string name = section.name;
  sections_[std::move(name)] =
      std::make_shared<Held>(Held{std::move(section), log});
}

void PreparedSet::End(const Slice& name, uint64_t commit_log) {
  const auto found = sections_.find(std::string_view(name.data(), name.size()));
  if (found == sections_.end()) return;
  if (commit_log != 0) commits_.emplace_back(found->second->log, commit_log);
  sections_.erase(found);
}

uint64_t PreparedSet::FirstLog(uint64_t first_log) const {
  uint64_t first = first_log;
  for (const auto& [name, held] : sections_) first = std::min(first, held->log);
  for (const auto& [log, commit_log] : commits_) {
    if (commit_log >= first_log) first = std::min(first, log);
  }
  return first;
}

void PreparedSet::Forget(uint64_t first_log) {
  std::erase_if(commits_, [first_log](const auto& commit) {
    return commit.second < first_log;
  });
}

void PreparedSet::SetLog(uint64_t log) {
  for (const auto& [name, held] : sections_) held->log = log;
}

uint64_t PreparedSet::CopyBytes() const {
  uint64_t bytes = 0;
  for (const auto& [name, held] : sections_) {
    bytes += 2 * name.size() + held->section.updates.ApproximateSize();
  }
  return bytes;
}

}  // namespace varve
