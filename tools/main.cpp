// cubit, the command line. This file parses the global options; each subcommand has a file in tools/commands/. The
// whole program uses the library through <cubit/cubit.hpp>.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <new>
#include <system_error>

#include "cubit_commit.hpp"
#include "files/text/error.hpp"
#include "files/text/quote.hpp"
#include "tools/options/context.hpp"

namespace {

using cubit::tools::Context;

constexpr const char* kHelp =
    R"(cubit turns an operator descriptor into a CUDA kernel, compiles it with NVRTC, caches it and launches it.

A descriptor is operator:field=value,field=value, for instance
  gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4
Fields at their default may be left out; cubit operators lists operators, fields and what each accepts.)";

constexpr const char* kExamples = R"(
Examples:
  cubit run gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4 --input case.safetensors --output out.safetensors
  cubit run gqa_decode:heads_per_kv=8 --random batch=2,context=512,kv_heads=1 --check
  cubit explain gqa_decode:heads_per_kv=8 --arch sm_90a
cubit SUBCOMMAND --help has more.

Exit codes: 0 success; 1 the work failed (a compile error, a check over its tolerance, damage found, no device);
2 bad input, with one sentence on standard error that says what would be accepted.)";

/// The unknown word in the place of a subcommand of `command`; "" if no subcommand is missing.
std::string unknown_word(const CLI::App& command, const CLI::App& app) {
  if (command.get_require_subcommand_min() == 0 || !command.get_subcommands().empty()) return {};
  const auto words = app.remaining(true);
  const auto found = std::find_if(words.begin(), words.end(), [](const auto& word) { return !word.starts_with('-'); });
  return found == words.end() ? std::string() : *found;
}

/// The message of CLI11's error as one line.
std::string usage_sentence(const CLI::ParseError& error, const CLI::App& app) {
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::string name = "cubit";
  const auto given = app.get_subcommands();
  if (given.empty() && !app.remaining().empty()) {
    text = cubit::tools::shortened(app.remaining().front()) + ": is not a subcommand";
  }
  if (!given.empty()) {
    name += " " + given.front()->get_name();
    const std::string word = unknown_word(*given.front(), app);
    if (!word.empty()) text = cubit::tools::shortened(word) + ": is not a subcommand of " + name;
  }
  return fmt::format("{}; see {} --help", text, name);
}

/// The subcommands that the first build of `make run` leaves out (CUBIT_TOOL_COMMANDS).
#ifdef CUBIT_COMMANDS_OF_KERNELS
void add_commands_of_checkpoints(CLI::App& app, Context&) {
  for (const char* const name : {"study", "calibrate", "smooth", "quantize-checkpoint", "convert"}) {
    app.add_subcommand(name, "Not in this build: `make build` builds it")->preparse_callback([name](std::size_t) {
      throw cubit::tools::BadInput(name, "is not in this build, which `make run` made",
                                   "`make build` builds build/release/tools/cubit with all subcommands");
    });
  }
}
#else
void add_commands_of_checkpoints(CLI::App& app, Context& context) {
  cubit::tools::add_study(app, context);
  cubit::tools::add_calibrate(app, context);
  cubit::tools::add_smooth(app, context);
  cubit::tools::add_quantize_checkpoint(app, context);
  cubit::tools::add_convert(app, context);
}
#endif

void add_options(CLI::App& app, Context& context) {
  app.fallthrough();
  app.require_subcommand(1);
  app.footer(kExamples);
  app.set_version_flag("--version", fmt::format("cubit {}.{}.{} ({})", CUBIT_VERSION_MAJOR, CUBIT_VERSION_MINOR,
                                                CUBIT_VERSION_PATCH, cubit::kCommit));
  app.add_option("--cache-dir", context.cache_dir,
                 "Folder of the kernel cache (default: CUBIT_CACHE_DIR, else XDG's cubit folder; \"\": none)");
  app.add_option("--compile", context.compile, "Whether kernels that no cache holds may be compiled (default: allow)")
      ->check(CLI::IsMember({"allow", "never"}));
  app.add_option("--score", context.scores,
                 "A score modification for descriptors with score=NAME: NAME=FILE, device code (may be repeated)")
      ->allow_extra_args(false);
  app.add_flag("--verbose", context.verbose, "Print log lines on standard error");
  cubit::tools::add_compile(app, context);
  cubit::tools::add_run(app, context);
  cubit::tools::add_bench(app, context);
  cubit::tools::add_explain(app, context);
  cubit::tools::add_explain_miss(app, context);
  cubit::tools::add_suggest(app, context);
  cubit::tools::add_bundle(app, context);
  cubit::tools::add_cache(app, context);
  add_commands_of_checkpoints(app, context);
  cubit::tools::add_devices(app, context);
  cubit::tools::add_operators(app, context);
}

/// Reports a failed write, on a full disk for example: either flushing fails now, or the stream remembers an earlier
/// failure.
void finish_output() {
  std::cout.flush();
  if (!std::cout || std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    throw cubit::tools::WorkFailed("standard output", "cannot be written");
  }
}

int parse_and_run(int argc, const char* const* argv, Context& context) {
  CLI::App app(kHelp, "cubit");
  add_options(app, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    app.exit(request);
    finish_output();
    return cubit::tools::kExitGood;
  } catch (const CLI::ParseError& error) {
    context.console.say(usage_sentence(error, app));
    return cubit::tools::kExitBadInput;
  }
  const int exit_code = context.action();
  finish_output();
  return exit_code;
}

bool is_bad_input(const cubit::Error& error) {
  return error.code() == CUBIT_INVALID_ARGUMENT || error.code() == CUBIT_UNSUPPORTED;
}

void say(const cubit::Error& error, cubit::tools::Console& console) {
  error.code() == CUBIT_COMPILE_FAILED ? console.say_log(error.what()) : console.say(error.what());
}

/// Opens the standard streams that the caller closed. Else the next opened file would get the number of a standard
/// stream, and a log line could be written into a cache entry.
void occupy_standard_streams() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    // open takes the lowest free number, which is `descriptor`
    if (::fcntl(descriptor, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) != descriptor) ::_exit(1);
  }
}

/// Runs the command and returns its exit code. Every failure is reported as one sentence.
int run_command(int argc, const char* const* argv) {
  Context context;
  try {
    return parse_and_run(argc, argv, context);
  } catch (const cubit::Error& error) {
    say(error, context.console);
    return is_bad_input(error) ? cubit::tools::kExitBadInput : cubit::tools::kExitWorkFailed;
  } catch (const cubit::tools::CommandError& error) {
    context.console.say(error.what());
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    context.console.say("this case: needs more memory than this machine has; give smaller sizes");
  } catch (const std::system_error& error) {  // standard output is full or closed, or the system gives no thread
    context.console.say(error.what());
  } catch (const std::exception& error) {
    context.console.say(fmt::format("internal error: {}; please report it", error.what()));
  }
  return cubit::tools::kExitWorkFailed;
}

}  // namespace

#ifdef CUBIT_SANITIZED
/// The tests of the library search for leaks. The search at the end of a process takes longer than most commands, which
/// the tool's tests start by the hundred.
extern "C" int __lsan_is_turned_off() { return 1; }
#endif

int main(int argc, char** argv) {
  occupy_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file over the shell's size limit becomes a failed write, as on a full disk
  try {
    return run_command(argc, argv);
  } catch (...) {  // here only the memory for the message itself can be missing
    return cubit::tools::kExitWorkFailed;
  }
}
