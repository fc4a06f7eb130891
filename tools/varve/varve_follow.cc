// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_follow.h"

#include <map>
#include <memory>
#include <string>

#include "db/streams/change_stream.h"
#include "db/streams/directory_source.h"
#include "db/write/write_batch_internal.h"
#include "tools/varve/varve_database.h"
#include "tools/varve/varve_live.h"
#include "tools/varve/varve_text.h"

namespace varve {

namespace {

// A reader of the output gets what there is at least this often.
constexpr uint64_t kWaitUs = 1000000;

const char* NameOf(ValueType type) {
  switch (type) {
    case ValueType::kValue:
      return "put";
    case ValueType::kMerge:
      return "merge";
    case ValueType::kRangeDeletion:
      return "delete_range";
    case ValueType::kSingleDeletion:
      return "single_delete";
    default:
      return "delete";
  }
}

const char* NameOf(TransactionLogGap::Kind kind) {
  constexpr const char* kNames[] = {"none",     "ingested", "removed",
                                    "unlogged", "gone",     "damaged"};
  return kNames[static_cast<size_t>(kind)];
}

class Follower {
 public:
  Follower(Session* session, ChangeStream* stream)
      : session_(session),
        stream_(stream),
        out_(session->out),
        form_(FormOf(session->line)),
        json_(session->line.Has("json")) {}

  Status Run() {
    const bool waits = session_->line.Has("wait");
    Status status;
    while (status.ok() && !OutputFailed(session_)) {
      TransactionLogGap gap;
      if (stream_->Valid()) {
        status = PrintBatch();
        stream_->Next();
      } else if (stream_->GetGap(&gap)) {
        PrintGap(gap);
        stream_->Next();
      } else if (!stream_->status().ok()) {
        status = stream_->status();
      } else {
        FlushOutput(&out_, session_);
        fflush(session_->out);
        if (!waits) break;
        stream_->Wait(kWaitUs);
      }
    }
    FlushOutput(&out_, session_);
    return status;
  }

 private:
  // Families can be added at any time.
  std::string FamilyName(uint32_t id) {
    const auto known = names_.find(id);
    if (known != names_.end()) return known->second;
    FamilyList list;
    const std::string path = session_->db();
    ReadUnlocked(path, [&] { return list.Read(path); }).IgnoreError();
    for (const FamilyList::Entry& entry : list.entries()) {
      names_[entry.id] = entry.name;
    }
    // It was dropped.
    return names_.try_emplace(id, std::to_string(id)).first->second;
  }

  Status PrintBatch() {
    BatchReader reader;
    Status status = reader.Init(stream_->EncodedBatch());
    BatchRecord record;
    bool done = false;
    for (uint64_t i = 0; status.ok();) {
      status = reader.Next(&record, &done);
      if (!status.ok() || done) break;
      if (record.is_log_data) continue;
      PrintUpdate(reader.sequence() + i, reader.sequence(), reader.count(),
                  record);
      ++i;
    }
    return status;
  }

  void PrintUpdate(uint64_t sequence, uint64_t first, uint64_t count,
                   const BatchRecord& record) {
    const bool has_value = record.type == ValueType::kValue ||
                           record.type == ValueType::kMerge ||
                           record.type == ValueType::kRangeDeletion;
    if (json_) {
      out_.Add("{\"sequence\":" + std::to_string(sequence) +
               ",\"batch\":" + std::to_string(first) +
               ",\"updates\":" + std::to_string(count) + ",");
      out_.AddJsonField("family", FamilyName(record.family), false);
      out_.Add(std::string(",\"type\":\"") + NameOf(record.type) + "\",");
      out_.AddJsonField("key", record.key, false);
      if (has_value) {
        out_.Add(",");
        out_.AddJsonField(
            record.type == ValueType::kRangeDeletion ? "end" : "value",
            record.value, false);
      }
      out_.Add("}\n");
      return;
    }
    out_.Add(std::to_string(sequence) + " ");
    if (record.family != 0) {
      out_.Add(FamilyName(record.family), Form::kText);
      out_.Add(" ");
    }
    out_.Add(std::string(NameOf(record.type)) + " ");
    out_.Add(record.key, form_);
    if (has_value) {
      out_.Add(" : ");
      out_.Add(record.value, form_);
    }
    out_.Add("\n");
  }

  void PrintGap(const TransactionLogGap& gap) {
    if (!json_) {
      out_.Add("gap ");
      out_.Add(stream_->status().message(), Form::kText);
      out_.Add("\n");
      return;
    }
    out_.Add("{\"gap\":\"" + std::string(NameOf(gap.kind)) +
             "\",\"first\":" + std::to_string(gap.first) +
             ",\"last\":" + std::to_string(gap.last) + ",\"files\":[");
    const char* separator = "{";
    for (const TransactionLogGap::File& file : gap.files) {
      out_.Add(separator);
      separator = ",{";
      out_.AddJsonField("name", file.name, false);
      out_.Add(",");
      out_.AddJsonField("family", FamilyName(file.column_family_id), false);
      out_.Add("}");
    }
    out_.Add("]}\n");
  }

  Session* const session_;
  ChangeStream* const stream_;
  TextOutput out_;
  const Form form_;
  const bool json_;
  std::map<uint32_t, std::string> names_;
};

}  // namespace

Status RunFollow(Session* session) {
  Status status = RequireDatabase(session->line);
  if (!status.ok()) return status;
  if (session->line.Has("wait") && session->line.Has("once")) {
    return session->WrongUse("--wait and --once exclude each other");
  }
  uint64_t from = 0;
  const std::string* const text = session->line.Find("from");
  if (text != nullptr && !ParseNumber(*text, 10, &from)) {
    return session->WrongUse("--from needs a sequence number, not '" +
                             Printable(*text) + "'");
  }
  ChangeStream stream(
      std::make_unique<DirectorySource>(Env::Default(), session->db()));
  status = text != nullptr ? stream.Start(from) : stream.StartWithOldest();
  if (status.IsNotFound()) return session->Absent(status.message().ToString());
  return status.ok() ? Follower(session, &stream).Run() : status;
}

}  // namespace varve
