// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_scan.h"

#include <time.h>

#include <cinttypes>
#include <string>

#include "db/ttl/ttl_value.h"
#include "tools/varve/varve_database.h"
#include "tools/varve/varve_json.h"

namespace varve {

namespace {

// Prints entries in the form that the command line asks for.
class EntryPrinter {
 public:
  explicit EntryPrinter(Session* session)
      : session_(session),
        form_(FormOf(session->line)),
        json_(session->line.Has("json")),
        keys_(session->line.Has("keys") || !session->line.Has("values")),
        values_(session->line.Has("values") || !session->line.Has("keys")),
        times_(session->line.Has("timestamp")),
        out_(session->out) {}

  // Returns Corruption if a time is to be printed and the value has none.
  Status Print(const Iterator& iterator) {
    Slice value = iterator.value();
    if (json_) out_.Add("{");
    if (times_) {
      Status status = RemoveTtlTime(iterator.key(), &value);
      if (!status.ok()) return status;
      PrintTime(TtlTimeOf(iterator.value()));
    }
    if (keys_) PrintPart("key", iterator.key());
    if (keys_ && values_) out_.Add(json_ ? "," : " : ");
    if (values_) PrintPart("value", value);
    out_.Add(json_ ? "}\n" : "\n");
    return Status();
  }
  // Returns true if the output has failed, so that the scan can stop.
  bool failed() const { return out_.error() != 0; }
  void Finish() { FlushOutput(&out_, session_); }

 private:
  // Prints the time of a write, in the form of ldb or in seconds since 1970.
  void PrintTime(uint32_t time_s) {
    if (json_) {
      out_.Add("\"time\":" + std::to_string(time_s) + ",");
      return;
    }
    const time_t time = time_s;
    struct tm local = {};
    char text[64];
    localtime_r(&time, &local);
    strftime(text, sizeof(text), "%a %b %e %H:%M:%S %Y ", &local);
    out_.Add(text);
  }
  void PrintPart(std::string_view name, const Slice& bytes) {
    if (json_) {
      out_.AddJsonField(name, bytes, form_ == Form::kHex);
    } else {
      out_.Add(bytes, form_);
    }
  }

  Session* const session_;
  const Form form_;
  const bool json_;
  const bool keys_;
  const bool values_;
  const bool times_;
  TextOutput out_;
};

}  // namespace

Status RunScan(Session* session) {
  Database db;
  Status status = db.OpenToRead(*session);
  if (!status.ok()) return status;
  const BoundedScan scan(session->line);
  const bool reverse = session->line.Has("reverse");
  const bool is_long = !session->line.Has("limit") && !reverse;
  std::unique_ptr<Iterator> iterator = scan.NewIterator(db, is_long);
  EntryPrinter printer(session);
  uint64_t left = session->line.Number("limit", UINT64_MAX);
  if (left > 0 && reverse) iterator->SeekToLast();
  if (left > 0 && !reverse) iterator->SeekToFirst();
  for (; left > 0 && iterator->Valid() && status.ok() && !printer.failed();
       --left) {
    status = printer.Print(*iterator);
    if (reverse) {
      iterator->Prev();
    } else {
      iterator->Next();
    }
  }
  printer.Finish();
  if (status.ok()) status = iterator->status();
  iterator.reset();
  return status.ok() ? db.Close() : status;
}

Status RunCount(Session* session) {
  Database db;
  Status status = db.OpenToRead(*session);
  if (!status.ok()) return status;
  const BoundedScan scan(session->line);
  std::unique_ptr<Iterator> iterator = scan.NewIterator(db, true);
  uint64_t count = 0;
  std::string of_all;
  uint64_t estimate = 0;
  if (scan.from() == nullptr && scan.to() == nullptr &&
      db->GetIntProperty(db.family(), "varve.estimate-num-keys", &estimate)) {
    of_all = " of about " + std::to_string(estimate);
  }
  {
    Progress progress(*session);
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      ++count;
      if (count % kEntriesPerLook == 0 && progress.Due()) {
        progress.Show(std::to_string(count) + of_all + " entries");
      }
    }
  }
  status = iterator->status();
  iterator.reset();
  if (status.ok()) status = db.Close();
  if (!status.ok()) return status;
  if (session->line.Has("json")) {
    TextOutput out(session->out);
    JsonLine(&out).Number("keys", count);
  } else {
    fprintf(session->out, "%" PRIu64 "\n", count);
  }
  return status;
}

}  // namespace varve
