// What outlives a thread, or the process's own end: destructors of others' statics and thread-locals may still call.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace cubit {

/// A table that threads may still ask for while the process ends: for `static const auto& table = never_destroyed(…)`.
template <class T>
const T& never_destroyed(T value) {
  return *new T(std::move(value));
}

/// A thread's own, on the heap; one for each T, so what is asked for has a type of its own. It is freed as the thread
/// ends; what is asked for after that, by what is destroyed later, begins anew and stays.
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

/// The same of something small, in the thread's own memory: there is always room for it.
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
