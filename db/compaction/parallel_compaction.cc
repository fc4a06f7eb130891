// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/compaction/parallel_compaction.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "db/compaction/compaction_job.h"
#include "env/file_names.h"
#include "util/base/mutex.h"

namespace varve {

namespace {

// Keys of each input file among which boundaries are chosen.
constexpr size_t kAnchorsPerFile = 128;

// Outlives the call of RunParts: threads that come late find nothing to do.
struct PartQueue {
  void Work() {
    MutexLock lock(&mutex);
    while (next < count) {
      const size_t part = next++;
      ++running;
      mutex.Unlock();
      work(part);
      mutex.Lock();
      --running;
    }
    if (running == 0) idle.SignalAll();
  }

  Mutex mutex;
  CondVar idle;
  std::function<void(size_t)> work;
  size_t count = 0;
  size_t next = 0;
  size_t running = 0;
};

// Returns user keys that divide the input of a job into parts of about equal
// size, none much smaller than an output file. They are in increasing order,
// one fewer than parts.
std::vector<std::string> ChooseBoundaries(const Compaction& compaction,
                                          const CompactionJob& job,
                                          TableCache* table_cache) {
  std::vector<std::string> boundaries;
  const uint64_t total_bytes =
      TotalFileSize(job.read_inputs(0)) + TotalFileSize(job.read_inputs(1));
  const uint64_t parts = std::min(
      static_cast<uint64_t>(compaction.max_parts),
      total_bytes / std::max<uint64_t>(compaction.max_output_file_size, 1));
  if (parts < 2) return boundaries;
  std::vector<TableAnchor> anchors;
  for (int i = 0; i < 2; ++i) {
    for (const FileMetaData* file : job.read_inputs(i)) {
      std::shared_ptr<Table> table;
      // The job reports a table that cannot be opened.
      if (!table_cache->Find(file->table_file(), &table).ok()) return {};
      table->AppendAnchors(kAnchorsPerFile, &anchors);
    }
  }
  const InternalKeyComparator& comparator = compaction.version->comparator();
  std::sort(anchors.begin(), anchors.end(),
            [&comparator](const TableAnchor& a, const TableAnchor& b) {
              return comparator.CompareUser(a.user_key, b.user_key) < 0;
            });
  uint64_t passed_bytes = 0;
  for (TableAnchor& anchor : anchors) {
    passed_bytes += anchor.bytes;
    if (boundaries.size() + 1 == parts) break;
    if (passed_bytes < total_bytes / parts * (boundaries.size() + 1)) continue;
    if (boundaries.empty() ||
        comparator.CompareUser(boundaries.back(), anchor.user_key) < 0) {
      boundaries.push_back(std::move(anchor.user_key));
    }
  }
  return boundaries;
}

// Checks that all input entries were read: the inputs are removed afterwards,
// so unread entries would be lost. A count that is too small is no error.
Status CheckEntryCount(const TableOutputContext& context,
                       const CompactionJob& job, TableCache* table_cache,
                       uint64_t entries_read) {
  uint64_t missing = 0;
  uint64_t number = 0;  // A table that may lack them.
  for (int i = 0; i < 2; ++i) {
    for (const FileMetaData* file : job.read_inputs(i)) {
      std::shared_ptr<Table> table;
      Status status = table_cache->Find(file->table_file(), &table);
      if (!status.ok()) return status;
      const PropertiesBlock& properties = table->properties();
      // Without properties, as of LevelDB, there are none.
      uint64_t expected =
          properties.num_entries -
          std::min(properties.num_range_deletions, properties.num_entries);
      const uint64_t found = std::min(expected, entries_read);
      entries_read -= found;
      expected -= found;
      if (expected != 0) number = file->number;
      missing += std::min(expected, UINT64_MAX - missing);
    }
  }
  if (missing == 0) return Status::OK();
  return Status::Corruption(TableFileName(context.db_path, number),
                            "this or another input of a compaction has " +
                                std::to_string(missing) +
                                " entries fewer than its properties say");
}

}  // namespace

void RunParts(Env* env, size_t count, std::function<void(size_t)> work) {
  const auto queue = std::make_shared<PartQueue>();
  queue->work = std::move(work);
  queue->count = count;
  for (size_t i = 1; i < count; ++i) {
    // If no thread can be added, the existing ones do the work. The caller
    // waits for each part, and may run at normal priority: only manual
    // compactions and those of level 0 have parts.
    env->Schedule([queue] { queue->Work(); }, Env::Priority::kMedium)
        .IgnoreError();
  }
  queue->Work();
  MutexLock lock(&queue->mutex);
  while (queue->running > 0) queue->idle.Wait(&queue->mutex);
}

Status RunCompaction(const TableOutputContext& context,
                     const Compaction& compaction, TableCache* table_cache,
                     const std::vector<SequenceNumber>& snapshots,
                     const std::function<uint64_t()>& new_file_number,
                     const std::atomic<bool>* stop, VersionEdit* edit,
                     CompactionResult* result) {
  std::vector<std::unique_ptr<CompactionJob>> jobs;
  const auto add_job = [&] {
    jobs.push_back(std::make_unique<CompactionJob>(
        context, compaction, table_cache, snapshots, new_file_number, stop));
  };
  add_job();
  Status status = jobs[0]->Prepare();
  if (!status.ok()) return status;
  const std::vector<std::string> boundaries =
      ChooseBoundaries(compaction, *jobs[0], table_cache);
  result->parts = boundaries.size() + 1;
  for (size_t i = 0; i < result->parts; ++i) {
    if (i > 0) add_job();
    jobs.back()->SetParts(result->parts);
    jobs.back()->SetRange(i == 0 ? nullptr : &boundaries[i - 1],
                          i == boundaries.size() ? nullptr : &boundaries[i]);
  }
  std::vector<Status> statuses(result->parts);
  const auto run = [&](size_t i) { statuses[i] = jobs[i]->Run(); };
  if (jobs.size() == 1) {
    run(0);
  } else {
    RunParts(context.env, jobs.size(), run);
  }

  bool skipped_input = false;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (status.ok()) status = statuses[i];
    skipped_input |= jobs[i]->skipped_input();
    result->bytes_written += jobs[i]->bytes_written();
    result->entries_read += jobs[i]->entries_read();
    result->drops.Add(jobs[i]->drops());
  }
  if (status.ok() && !skipped_input) {
    status =
        CheckEntryCount(context, *jobs[0], table_cache, result->entries_read);
  }
  for (int i = 0; i < 2; ++i) {
    result->bytes_skipped[i] = jobs[0]->bytes_skipped(i);  // All skip the same.
  }
  if (status.ok()) compaction.RemoveInputs(edit);
  for (const auto& job : jobs) {
    if (status.ok()) {
      job->AddOutputs(edit);
    } else {
      job->Abandon();
      result->abandoned.insert(result->abandoned.end(),
                               job->abandoned().begin(),
                               job->abandoned().end());
    }
  }
  return status;
}

}  // namespace varve
