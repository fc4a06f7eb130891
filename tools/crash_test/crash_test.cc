// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// crash_test: repeatedly kills a process that uses a database, and checks each
// time that the database contains all acknowledged writes: see
// crash_test_plan.h and docs/trust.md. Ends with a line of figures. After a
// failure the directory is kept, and --seed repeats the run, as far as thread
// scheduling allows.

#include <gflags/gflags.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tools/crash_test/crash_test_plan.h"
#include "util/base/random.h"

DEFINE_string(dir, "", "Directory to work in; made, and removed at the end");
DEFINE_uint64(cycles, 50, "How often to kill");
DEFINE_uint64(seed, 0, "0: from the clock");
DEFINE_uint64(max_life_ms, 400, "The longest life of a worker, once it writes");
DEFINE_int64(worker, -1, "For its own use: be the worker of that cycle");

extern char** environ;

namespace varve::crash_test {
namespace {

constexpr int kMostMsToFirstWrite = 120'000;

class CrashTest {
 public:
  CrashTest(std::string directory, uint64_t seed)
      : directory_(std::move(directory)), seed_(seed), random_(seed) {
    std::filesystem::create_directories(directory_);
    progress_ = MapProgress(directory_ + "/progress");
    for (int t = 0; t < kThreads; ++t) models_.emplace_back(seed_, t);
  }

  bool Run(uint64_t cycles) {
    for (uint64_t cycle = 0; cycle < cycles; ++cycle) {
      if (!Kill(cycle)) return Fail(cycle, "the worker has found this");
      const std::string problem = Check(cycle);
      if (!problem.empty()) return Fail(cycle, problem);
    }
    uint64_t writes = 0;
    for (const ThreadModel& model : models_) writes += model.last();
    printf("crash_test: seed %" PRIu64 ": %" PRIu64 " kills, %" PRIu64
           " while opening; %" PRIu64 " writes kept, %" PRIu64
           " lost that might be; %" PRIu64 " moments and %" PRIu64
           " checkpoints right; %" PRIu64 " flushes and %" PRIu64
           " compactions asked for; %d families, %" PRIu64
           " others dropped; 0 failures\n",
           seed_, cycles, killed_early_, writes, lost_,
           progress_->moments.load(),
           progress_->checkpoints.load() + checkpoints_,
           progress_->flushes.load(), progress_->compactions.load(),
           PlanCycle(seed_, 0).families, progress_->drops.load());
    if (writes > 0) return true;
    fprintf(stderr,
            "crash_test: no write was kept, so nothing was tested; all is left "
            "in %s\n",
            directory_.c_str());
    return false;
  }

 private:
  bool Fail(uint64_t cycle, const std::string& problem) {
    fprintf(stderr,
            "crash_test: cycle %" PRIu64 " of seed %" PRIu64
            ": %s\noptions:%s\nall is left in %s\n",
            cycle, seed_, problem.c_str(),
            PlanCycle(seed_, cycle).names.c_str(), directory_.c_str());
    return false;
  }

  uint64_t Writes() const {
    const Counts counts = progress_->Acknowledged();
    return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  }

  // Starts a worker and kills it. False if it had ended by itself.
  bool Kill(uint64_t cycle) {
    const uint64_t before = Writes();
    const std::string arguments[] = {"/proc/self/exe", "--dir=" + directory_,
                                     "--seed=" + std::to_string(seed_),
                                     "--worker=" + std::to_string(cycle)};
    std::vector<char*> argv;
    for (const std::string& a : arguments) {
      argv.push_back(const_cast<char*>(a.c_str()));
    }
    argv.push_back(nullptr);
    pid_t child = 0;
    if (posix_spawn(&child, argv[0], nullptr, nullptr, argv.data(), environ) !=
        0) {
      perror("posix_spawn");
      return false;
    }
    // Some die while they recover, most when they have written.
    const bool early = random_.OneIn(5);
    int status = 0;
    for (int waited_ms = 0; !early && Writes() == before; ++waited_ms) {
      if (waitpid(child, &status, WNOHANG) != 0) return false;
      if (waited_ms > kMostMsToFirstWrite) {  // Under a sanitizer, too.
        fprintf(stderr, "the worker does not write\n");
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        return false;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(
        random_.Uniform(early ? 8000 : 1000 * FLAGS_max_life_ms)));
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    if (Writes() == before) ++killed_early_;
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  }

  // Returns an error in the state that the worker left, or an empty string.
  std::string Check(uint64_t cycle) {
    const CyclePlan plan = PlanCycle(seed_, cycle);
    OpenedDb opened;
    Status status = OpenDatabase(plan, directory_ + "/db", false, &opened);
    if (!status.ok()) return status.ToString();
    Moment found, backwards;
    std::string problem = ReadMoment(opened, {}, false, &found);
    if (problem.empty()) problem = ReadMoment(opened, {}, true, &backwards);
    if (!problem.empty()) return problem;
    if (!backwards.Follows(found)) return "forwards is not backwards";
    problem = CheckMoment(found, {});
    for (int t = 0; problem.empty() && t < kThreads; ++t) {
      problem = CheckThread(cycle, t, plan.KeepsAll(), found);
    }
    if (problem.empty()) problem = CheckLookups(opened, {}, found);
    if (problem.empty()) problem = CheckCheckpoints(plan);
    if (!problem.empty()) return problem;
    status = opened.db->VerifyChecksum();
    if (status.ok()) status = opened.db->Close();
    return status.ok() ? "" : status.ToString();
  }

  // The thread's last write is one that may be the last, and all up to it have
  // taken effect.
  std::string CheckThread(uint64_t cycle, int t, bool keeps_all,
                          const Moment& found) {
    Progress::PerThread& said = progress_->threads[t];
    ThreadModel& model = models_[t];
    uint64_t least = std::max(said.safe.load(), model.last());
    if (keeps_all) least = std::max(least, said.acknowledged.load());
    uint64_t most = said.begun.load();
    if (t < kSealedThreads) {
      if (found.last[t] >= least) least = found.last[t];
      most = std::min(most, found.last[t]);
    } else {
      least = std::max(least, found.LeastOfUnsealed());
    }
    // A thread without seals may be at any of these.
    while (model.last() < least) model.Apply(cycle, nullptr);
    while (model.entries() != found.entries[t] && model.last() < most) {
      model.Apply(cycle, nullptr);
    }
    if (model.last() > most || model.entries() != found.entries[t]) {
      return "thread " + std::to_string(t) + " is at " +
             std::to_string(found.last[t]) + ", or at none; begun " +
             std::to_string(said.begun.load()) + ", acknowledged " +
             std::to_string(said.acknowledged.load()) + ", safe " +
             std::to_string(said.safe.load());
    }
    if (!MayBeFiltered(model.filtered(), found.filtered[t])) {
      return "thread " + std::to_string(t) + " is at " +
             std::to_string(model.last()) + ", but not what is filtered";
    }
    if (said.acknowledged.load() > model.last()) {
      lost_ += said.acknowledged.load() - model.last();
    }
    // No later kill may undo what was recovered.
    said.begun.store(model.last());
    said.acknowledged.store(model.last());
    said.safe.store(model.last());
    return "";
  }

  // Checks that the existing checkpoints are whole.
  std::string CheckCheckpoints(const CyclePlan& plan) {
    for (int i = 0; i < 2; ++i) {
      const std::string place = CheckpointPath(directory_, i);
      if (!std::filesystem::exists(place)) continue;
      OpenedDb opened;
      const Status status = OpenDatabase(plan, place, true, &opened);
      if (!status.ok()) return status.ToString();
      Moment found;
      std::string problem = ReadMoment(opened, {}, false, &found);
      if (problem.empty()) problem = CheckMoment(found, {});
      if (!problem.empty()) return place + ": " + problem;
      ++checkpoints_;
    }
    return "";
  }

  const std::string directory_;
  const uint64_t seed_;
  Random random_;
  Progress* progress_;
  std::vector<ThreadModel> models_;
  uint64_t lost_ = 0;
  uint64_t killed_early_ = 0;
  uint64_t checkpoints_ = 0;
};

}  // namespace
}  // namespace varve::crash_test

int main(int argc, char** argv) {
  gflags::SetUsageMessage(
      "kills a process that writes, and checks what is left of its database");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  if (argc > 1) {
    fprintf(stderr, "crash_test: what is %s?\n", argv[1]);
    return 2;
  }
  if (FLAGS_dir.empty() || FLAGS_cycles == 0) {
    fprintf(stderr, "crash_test: --dir is needed, and --cycles above 0\n");
    return 2;
  }
  if (FLAGS_worker >= 0) {
    varve::crash_test::Work(FLAGS_dir, FLAGS_seed,
                            static_cast<uint64_t>(FLAGS_worker));
  }
  // All of it is removed at the end.
  std::error_code error;
  if (std::filesystem::exists(FLAGS_dir, error) &&
      (!std::filesystem::is_empty(FLAGS_dir, error) || error)) {
    fprintf(stderr, "crash_test: %s is there, and not an empty directory\n",
            FLAGS_dir.c_str());
    return 2;
  }
  if (!std::filesystem::create_directories(FLAGS_dir, error) && error) {
    fprintf(stderr, "crash_test: %s: %s\n", FLAGS_dir.c_str(),
            error.message().c_str());
    return 2;
  }
  const uint64_t seed =
      FLAGS_seed != 0
          ? FLAGS_seed
          : static_cast<uint64_t>(
                std::chrono::system_clock::now().time_since_epoch().count());
  printf("crash_test: seed %" PRIu64 "\n", seed);
  fflush(stdout);
  if (!varve::crash_test::CrashTest(FLAGS_dir, seed).Run(FLAGS_cycles)) {
    return 1;
  }
  std::filesystem::remove_all(FLAGS_dir);
  return 0;
}
