// Objects that stay usable while a thread or the process ends.
//
// Destructors of other libraries' static and thread-local objects may call cubit late, after cubit's own static objects
// would have been destroyed.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace cubit {

/// Returns a table that is never destroyed, so that threads may still use the table while the process ends. Usage:
/// `static const auto& table = never_destroyed(…)`.
template <class T>
const T& never_destroyed(T value) {
  return *new T(std::move(value));
}

/// Returns this thread's object of type T, allocated on the heap at the first call. Each T has one object per thread,
/// so every use defines a type of its own. The object is freed when the thread ends. A destructor that asks after that
/// gets a new object, which is leaked.
template <class T>
T& of_this_thread() {
  static thread_local T* own = nullptr;
  struct Owner {
    ~Owner() { delete std::exchange(own, nullptr); }
  };
  if (own == nullptr) [[unlikely]] {
    static thread_local const Owner owner;
    own = new T;
  }
  return *own;
}

/// Like of_this_thread(), for a small T: the object lies in thread-local storage, so the call never allocates memory.
template <class T>
T& in_place_of_this_thread() noexcept {
  static_assert(std::is_nothrow_default_constructible_v<T>);
  struct Place {
    alignas(T) std::byte bytes[sizeof(T)];
    bool is_made;

    T& get() { return *std::launder(reinterpret_cast<T*>(bytes)); }
  };
  static thread_local Place place;
  struct Owner {
    ~Owner() {
      if (std::exchange(place.is_made, false)) place.get().~T();
    }
  };
  if (!place.is_made) [[unlikely]] {
    static thread_local const Owner owner;
    new (place.bytes) T;
    place.is_made = true;
  }
  return place.get();
}

}  // namespace cubit
