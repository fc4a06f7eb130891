// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <mutex>
#include <unordered_set>

namespace varve::compat {

// The objects of class T that exist, so that Open can tell an Env, a Cache or a
// filter policy of this library from one of the program's. A dynamic_cast would
// crash for objects of programs without run-time type information, as LevelDB's
// own build has them. T derives from OwnObject<T, Base> in place of Base.
//
// Thread-safety: thread-safe.
template <typename T, typename Base>
class OwnObject : public Base {
 public:
  // Returns the object as a T, or null if it is not one.
  static T* Find(Base* object) {
    return Contains(object) ? static_cast<T*>(object) : nullptr;
  }
  static const T* Find(const Base* object) {
    return Contains(object) ? static_cast<const T*>(object) : nullptr;
  }

 protected:
  OwnObject() {
    const std::lock_guard<std::mutex> lock(All().mutex);
    All().objects.insert(this);
  }
  ~OwnObject() override {
    const std::lock_guard<std::mutex> lock(All().mutex);
    All().objects.erase(this);
  }

 private:
  struct Registry {
    std::mutex mutex;
    std::unordered_set<const Base*> objects;
  };
  // Never destroyed: programs use these objects in destructors of static ones.
  static Registry& All() {
    static auto* const registry = new Registry;
    return *registry;
  }
  static bool Contains(const Base* object) {
    const std::lock_guard<std::mutex> lock(All().mutex);
    return All().objects.contains(object);
  }
};

}  // namespace varve::compat
