// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: a program outside the tree can test its own durability with what is
// installed. Method: write a synced and an unsynced key, cut the power, and
// open the database again; then let a sync fail.

#include <iostream>
#include <memory>
#include <string>

#include "varve/db.h"
#include "varve/testing/fault_injection_env.h"

namespace {

// Prints what differs from the expectation; the program then fails.
bool Expect(bool condition, const char* what) {
  if (!condition) std::cerr << "power_loss: " << what << '\n';
  return condition;
}

bool Run() {
  const std::unique_ptr<varve::Env> memory =
      varve::NewMemoryEnv(varve::Env::Default());
  varve::FaultInjectionEnv env(memory.get());
  varve::Options options;
  options.create_if_missing = true;
  options.env = &env;
  varve::WriteOptions synced;
  synced.sync = true;

  std::unique_ptr<varve::DB> db;
  if (!Expect(varve::DB::Open(options, "/db", &db).ok(), "Open")) return false;
  bool good = Expect(db->Put(synced, "kept", "1").ok(), "synced Put");
  good &= Expect(db->Put({}, "lost", "2").ok(), "Put");
  env.SetFilesystemActive(false);
  good &= Expect(!db->Put(synced, "late", "3").ok(), "Put without power");
  db.reset();

  varve::CrashOptions crash;
  crash.lose_everything_unsynced = true;
  good &= Expect(env.CrashAndReset(crash).ok(), "CrashAndReset");
  if (!Expect(varve::DB::Open(options, "/db", &db).ok(),
              "Open after the crash"))
    return false;
  std::string value;
  good &= Expect(db->Get({}, "kept", &value).ok(), "the synced key");
  good &= Expect(db->Get({}, "lost", &value).IsNotFound(), "the unsynced key");

  env.FailAfter(0, varve::FaultInjectionEnv::InjectedError(),
                varve::kSyncOperation);
  good &= Expect(db->Put(synced, "failed", "4").IsIOError(), "a failing sync");
  good &= Expect(env.FailureCount() == 1, "one failure");
  return good;
}

}  // namespace

int main() {
  if (!Run()) return 1;
  std::cout << "one key kept, one lost\n";
  return 0;
}
