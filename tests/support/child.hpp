// A child process of a test, which the test forks and whose findings it reads.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <stdexcept>
#include <string>

namespace cubit::tests {

/// Runs `body` in a child process, and returns the text that it returns, with how the child ended if it died. The child
/// runs no destructors, and a signal ends a child that still runs after a minute.
template <class Body>
std::string said_by_child(const Body& body) {
  constexpr unsigned kSeconds = 60;
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("pipe failed");
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    ::alarm(kSeconds);
    std::string said;
    try {
      said = body();
    } catch (const std::exception& error) {
      said = std::string("threw: ") + error.what();
    }
    const ssize_t written = ::write(ends[1], said.data(), said.size());
    ::_exit(written == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t count = 0; (count = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
    said.append(buffer, static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) said += " (the child died of signal " + std::to_string(WTERMSIG(status)) + ")";
  return said;
}

}  // namespace cubit::tests
