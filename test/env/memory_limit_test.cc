// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: the memory limit of the process's control groups, as v1 and v2 show it
// on a machine and in containers, and hostile texts in its place. Method: a
// folder with copies of the kernel's files.

#include "env/memory_limit.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/testing/sanitizers.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "util/base/random.h"

namespace varve {
namespace {

constexpr uint64_t kMegabyte = 1 << 20;
constexpr uint64_t kMachine = 1000 * kMegabyte;

class MemoryLimitTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = directory_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  // Creates a control group with a limit.
  void WriteGroup(const std::string& folder, const std::string& file,
                  const std::string& limit) {
    Write(folder + "/cgroup.procs", "");
    Write(folder + "/" + file, limit + "\n");
  }
  void WriteV2(const std::string& folder, const std::string& limit) {
    WriteGroup("/sys/fs/cgroup" + folder, "memory.max", limit);
  }
  void WriteV1(const std::string& folder, const std::string& limit) {
    WriteGroup("/sys/fs/cgroup/memory" + folder, "memory.limit_in_bytes",
               limit);
  }
  uint64_t Limit() const {
    return ReadMemoryLimit(
        {.root = directory_.path(), .other_limit = kMachine});
  }

  test::TempDir directory_;
};

TEST_F(MemoryLimitTest, WithoutControlGroupsIsTheMachines) {
  EXPECT_EQ(Limit(), kMachine);
  Write("/proc/self/cgroup", "0::/a\n");
  EXPECT_EQ(Limit(), kMachine) << "nothing is mounted";
}

TEST_F(MemoryLimitTest, V2IsTheLeastOfAllGroupsAround) {
  Write("/proc/self/cgroup", "0::/a/b/c\n");
  Write("/sys/fs/cgroup/cgroup.procs", "");  // The root has no limit.
  WriteV2("/a", std::to_string(64 * kMegabyte));
  WriteV2("/a/b", std::to_string(100 * kMegabyte));
  WriteV2("/a/b/c", "max");
  EXPECT_EQ(Limit(), 64 * kMegabyte);
  Write("/sys/fs/cgroup/a/b/memory.high",
        std::to_string(32 * kMegabyte) + "\n");
  EXPECT_EQ(Limit(), 32 * kMegabyte);
  WriteV2("/a/b/c", std::to_string(16 * kMegabyte));
  EXPECT_EQ(Limit(), 16 * kMegabyte);
}

TEST_F(MemoryLimitTest, V2InAContainerIsTheMountPoints) {
  // With a cgroup namespace, and without one.
  for (const char* group : {"0::/\n", "0::/../sibling\n", "0::/docker/17\n"}) {
    Write("/proc/self/cgroup", group);
    WriteV2("", std::to_string(64 * kMegabyte));
    EXPECT_EQ(Limit(), 64 * kMegabyte) << group;
  }
}

TEST_F(MemoryLimitTest, V1IsTheLeastOfAllGroupsAround) {
  Write("/proc/self/cgroup",
        "9:name=systemd:/x\n5:cpu,memory:/a/b\n1:cpuset:/y\n0::/z\n");
  WriteV1("", "9223372036854771712");
  WriteV1("/a", std::to_string(64 * kMegabyte));
  WriteV1("/a/b", std::to_string(100 * kMegabyte));
  EXPECT_EQ(Limit(), 64 * kMegabyte);
}

TEST_F(MemoryLimitTest, V1InAContainerFindsTheGroupsOutside) {
  Write("/proc/self/cgroup", "5:memory:/docker/17\n");
  WriteV1("", std::to_string(100 * kMegabyte));
  EXPECT_EQ(Limit(), 100 * kMegabyte);
  Write("/sys/fs/cgroup/memory/memory.stat",
        "cache 1\nhierarchical_memory_limit " + std::to_string(50 * kMegabyte) +
            "\ntotal_cache 2\n");
  EXPECT_EQ(Limit(), 50 * kMegabyte);
}

TEST_F(MemoryLimitTest, UnusualMountsAreFound) {
  Write("/proc/self/cgroup", "5:memory:/outer/a/b\n");
  Write("/proc/self/mountinfo",
        "1 0 8:1 / / rw - ext4 /dev/sda rw\n"
        "bad\n\n- - -\n"
        "2 1 0:5 / /other rw - cgroup cgroup rw,cpu\n"
        "3 1 0:6 /outer /my\\040groups rw shared:7 - cgroup none rw,memory\n");
  WriteGroup("/my groups/a/b", "memory.limit_in_bytes",
             std::to_string(100 * kMegabyte));
  WriteGroup("/my groups/a", "memory.limit_in_bytes",
             std::to_string(64 * kMegabyte));
  EXPECT_EQ(Limit(), 64 * kMegabyte);
  // A group that the mount does not show.
  Write("/proc/self/cgroup", "5:memory:/outermost\n");
  WriteGroup("/my groups", "memory.limit_in_bytes",
             std::to_string(80 * kMegabyte));
  EXPECT_EQ(Limit(), 80 * kMegabyte);
  Write("/proc/self/cgroup", "0::/c\n");
  EXPECT_EQ(Limit(), kMachine) << "v2 is not mounted";
  Write("/proc/self/mountinfo",
        "4 1 0:7 / /two rw - cgroup2 none rw,nsdelegate\n");
  WriteGroup("/two/c", "memory.max", std::to_string(20 * kMegabyte));
  EXPECT_EQ(Limit(), 20 * kMegabyte);
}

TEST_F(MemoryLimitTest, OtherTextsAreNoLimit) {
  Write("/proc/self/cgroup", "0::/a\n");
  Write("/sys/fs/cgroup/cgroup.procs", "");
  for (const char* text :
       {"", "max", "0", "-1", "-5", "99999999999999999999999", "12x", "x12",
        " 12", "0x10", "\n\n", "18446744073709551615"}) {
    WriteV2("/a", text);
    EXPECT_EQ(Limit(), kMachine) << text;
  }
}

TEST_F(MemoryLimitTest, RandomTextsAreRead) {
  const uint64_t seed = 17;
  SCOPED_TRACE(seed);
  Random random(seed);
  constexpr std::string_view kBytes = "/:,- \\0471.ab\nmemory cgroup";
  for (int i = 0; i < 300; ++i) {
    for (const char* file : {"/proc/self/cgroup", "/proc/self/mountinfo"}) {
      std::string text = i % 2 == 0 ? "0::/a" : "1 2 3 / /m o - cgroup c ";
      for (uint64_t left = random.Uniform(200); left > 0; --left) {
        text += kBytes[random.Uniform(kBytes.size())];
      }
      Write(file, text);
    }
    EXPECT_LE(Limit(), kMachine);
  }
}

#ifndef VARVE_TEST_SANITIZED
// Sanitizers need more memory than any limit allows.
TEST_F(MemoryLimitTest, FollowsTheResourceLimits) {
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      rlimit limit{};
      getrlimit(resource, &limit);
      limit.rlim_cur = 77 * kMegabyte;
      setrlimit(resource, &limit);
      _exit(MemoryLimit() <= 77 * kMegabyte ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}
#endif

}  // namespace
}  // namespace varve
