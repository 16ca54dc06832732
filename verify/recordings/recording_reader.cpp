#include "verify/recordings/recording_reader.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <regex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/printable_text.h"
#include "sim/base/refusals.h"
#include "verify/output/input_file.h"
#include "verify/output/phrases.h"
#include "verify/output/refusal_table.h"
#include "verify/recordings/json_values.h"
#include "verify/recordings/pickle_reader.h"

namespace verify {

namespace {

constexpr const char* kBlanks = " \t\r\n";
constexpr std::size_t kMostRefusals = 20;  // of files: the others are alike
constexpr std::int64_t kMostNotes = 20;    // on files that are no dumps

/// A file that may be a dump, and what was read of it.
struct Candidate {
  std::string path;
  bool is_named = false;  // on the command line, and not found in a folder
  std::optional<Recording> recording;
  std::optional<BlankDump> blank;
  std::string packing;  // of a file that is no dump: what packs it
  std::exception_ptr problem;
};

/// What the paths of a source lead to.
struct FoundPaths {
  std::vector<Candidate> files;
  std::int64_t folders = 0;  // within the folders: they are not read
  std::int64_t others = 0;   // pipes, devices, and links that lead nowhere
};

void add_files_of(const std::string& folder, FoundPaths& found) {
  std::error_code error, none;
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string path = entry.path().string();
    if (what_is_no_plain_file(path).empty()) {
      paths.push_back(path);
    } else {
      ++(entry.is_directory(none) ? found.folders : found.others);
    }
  }
  if (error) refuse_by("dump_missing/folder", sim::printable_text(folder), error.message());
  std::ranges::sort(paths);
  for (std::string& path : paths) found.files.push_back({.path = std::move(path)});
}

std::string is_or_are(std::int64_t count, const char* one, const char* several) {
  return count == 1 ? one : several;
}

/// Says what in the folders was not opened.
std::vector<std::string> notes_on(const FoundPaths& found) {
  std::vector<std::string> notes;
  if (found.folders > 0)
    notes.push_back(fmt::format("{} within the folders {} not read.", counted(found.folders, "folder"),
                                is_or_are(found.folders, "was", "were")));
  if (found.others > 0)
    notes.push_back(
        fmt::format("{} in the folders cannot be opened (pipes, devices, links that lead nowhere).",
                    counted(found.others, "name")));
  return notes;
}

FoundPaths found_paths(const RecordingSource& source) {
  FoundPaths found;
  std::vector<Candidate>& files = found.files;
  sim::Refusals refusals;
  for (const std::string& path : source.paths) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) {
      refusals.keep([&] { add_files_of(path, found); });
      continue;
    }
    const std::string problem = what_is_no_plain_file(path);
    refusals.keep([&] {
      if (!problem.empty()) refuse_by("dump_missing/path", sim::printable_text(path), problem);
    });
    files.push_back({.path = path, .is_named = true});
  }
  refusals.throw_if_any();
  // A file may be named and be in a folder that is named.
  std::ranges::stable_sort(files, {}, &Candidate::path);
  const auto copies = std::ranges::unique(files, {}, &Candidate::path);
  files.erase(copies.begin(), copies.end());
  return found;
}

/// Reads a file into the buffer.
void read_bytes(const std::string& path, std::string& bytes) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) refuse_by("dump_missing/file", sim::printable_text(path), error.message());
  if (size > kMostRecordingBytes)
    refuse_by("dump_size/recording", sim::printable_text(path), size, kMostRecordingBytes);
  bytes.resize(size);
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(size));
  if (!file.is_open()) refuse_by("dump_missing/unopened", sim::printable_text(path));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
}

/// Returns the value of a file with the form of a dump: a pickle, or a JSON object.
std::optional<ParsedFile> parsed_file(std::string_view bytes, const std::string& file, ValueTree& tree) {
  const std::size_t first = bytes.find_first_not_of(kBlanks);
  const bool is_pickle = begins_as_pickle(bytes);
  if (first == std::string_view::npos || (!is_pickle && bytes[first] != '{')) return std::nullopt;
  tree.begin(file);
  return is_pickle ? parse_pickle(bytes, file, tree) : parse_json_values(bytes, file, tree);
}

/// Whether bytes that are no dump are the beginning of one.
bool ends_before_a_field(std::string_view bytes, const std::string& file, ValueTree& tree) {
  if (bytes.find_first_not_of(kBlanks) == std::string_view::npos) return true;
  const std::optional<ParsedFile> parsed = parsed_file(bytes, file, tree);
  return parsed && parsed->is_truncated;
}

/// Returns what packs a file, by its first bytes: "gzip", say; "" where nothing known does.
std::string packing_of(std::string_view bytes) {
  constexpr std::pair<const char*, std::string_view> kPackings[] = {{"gzip", "\x1f\x8b"},
                                                                    {"zip", "PK\x03\x04"},
                                                                    {"zstd", "\x28\xb5\x2f\xfd"},
                                                                    {"xz", "\xfd\x37zXZ"},
                                                                    {"bzip2", "BZh"}};
  for (const auto& [name, begins] : kPackings)
    if (bytes.starts_with(begins)) return name;
  constexpr std::size_t kPlaceInTar = 257;
  return bytes.size() > kPlaceInTar && bytes.substr(kPlaceInTar).starts_with("ustar") ? "tar" : "";
}

std::string words_of_packing(const std::string& packing) {
  return fmt::format("packed with {}, and is not unpacked here", packing);
}

/// Reads the candidates on several threads. What each file has is stored with it, so that nothing depends on
/// the order in which threads come to the files.
void read_files(std::vector<Candidate>& files, int threads, const ReadingProgress& progress) {
  SharedRanks lists;
  std::atomic<std::size_t> next = 0;
  const auto work = [&](bool shows_progress) {
    ValueTree tree;
    std::string bytes;
    for (std::size_t i = next++; i < files.size(); i = next++) {
      Candidate& file = files[i];
      if (shows_progress && progress) progress(i, files.size(), file.path);
      try {
        read_bytes(file.path, bytes);
        // A file that was cut may end in zeros, and a whole dump does not.
        const std::string_view written = std::string_view(bytes).substr(0, bytes.find_last_not_of('\0') + 1);
        file.recording = recording_of(written, sim::printable_text(file.path), lists, tree);
        if (file.recording) {
          file.recording->path = file.path;
        } else if (ends_before_a_field(written, file.path, tree)) {
          file.blank = BlankDump{.path = file.path, .bytes = bytes.size()};
        } else {
          file.packing = packing_of(bytes);
        }
      } catch (...) {
        file.problem = std::current_exception();
      }
    }
  };
  std::vector<std::thread> others;
  const auto count = std::min<std::size_t>(static_cast<std::size_t>(std::max(threads, 1)), files.size());
  for (std::size_t i = 1; i < count; ++i) others.emplace_back(work, false);
  work(true);
  for (std::thread& thread : others) thread.join();
}

/// Returns the first packed file; null where there is none.
const Candidate* first_packed(const std::vector<Candidate>& files) {
  const auto found = std::ranges::find_if(files, [](const auto& file) { return !file.packing.empty(); });
  return found == files.end() ? nullptr : &*found;
}

/// Files of a folder that were refused do not keep the others from being read: those whose names are alike
/// to those of dumps are blank dumps if their bytes are damaged, and others are no dumps, which the notes
/// say. All other problems are thrown.
template <typename IsAlike>
void settle_problems(std::vector<Candidate>& files, bool has_dumps, const IsAlike& is_alike,
                     std::vector<std::string>& notes) {
  sim::Refusals refusals;
  std::size_t kept = 0;
  std::int64_t noted = 0;
  for (Candidate& file : files) {
    if (file.problem == nullptr) continue;
    try {
      std::rethrow_exception(file.problem);
    } catch (const sim::Error& error) {
      const sim::Refusal& refusal = error.refusal();
      const bool is_damaged = refusal.code != "dump_size" && refusal.code != "dump_missing";
      if (!has_dumps || file.is_named || (is_alike(file.path) && !is_damaged)) {
        if (kept++ < kMostRefusals) refusals.keep([&] { throw; });
      } else if (is_alike(file.path)) {
        file.blank = BlankDump{.path = file.path, .problem = refusal.numbers};
      } else if (noted++ < kMostNotes) {
        notes.push_back(fmt::format("{} is no dump, and was left out: {}.", sim::printable_text(file.path),
                                    refusal.numbers));
      }
    }
  }
  refusals.throw_if_any();
  const std::int64_t untold = noted - kMostNotes;
  if (untold > 0)
    notes.push_back(fmt::format("{} of this kind {} no dump either, and {} left out.",
                                counted(untold, "other file"), is_or_are(untold, "is", "are"),
                                is_or_are(untold, "was", "were")));
}

constexpr std::string_view kSeparators = "_-.=";  // between "rank" and its number

/// Finds the rank of a dump in its path.
class RankFinder {
 public:
  explicit RankFinder(const std::string& expression) : by_name_(expression.empty()) {
    if (by_name_) return;
    constexpr std::size_t kMostBytes = 1024;  // chosen: a file name has at most 255, a pattern for it fewer
    if (expression.size() > kMostBytes)
      refuse_by("bad_expression/long", "--rank-from", expression.size(), kMostBytes);
    try {
      expression_ = std::regex(expression);
    } catch (const std::regex_error& error) {
      refuse_by("bad_expression", "--rank-from", sim::printable_text(expression), error.what());
    }
  }

  int rank_of(const std::string& path) const {
    const std::string digits = by_name_ ? number_of(path) : matched(path);
    const std::optional<int> rank = verify::number_of<int>(digits);
    if (rank && *rank >= 0 && *rank < kMostRecordedRanks) return *rank;
    refuse_by("unknown_rank", sim::printable_text(path),
              digits.empty() ? (by_name_ ? "no number in the file's name" : "no match of --rank-from")
                             : fmt::format("'{}'", sim::printable_text(digits.substr(0, 40))),
              kMostRecordedRanks - 1);
  }

  /// Returns a path without the numbers of its file's name, by which files of one job are alike; "" where
  /// no rank is found.
  std::string name_without_rank(const std::string& path) const {
    if (!by_name_) return matched(path).empty() ? "" : "a rank";
    if (number_of(path).empty()) return "";
    const std::size_t name = path.rfind('/') + 1;
    std::string alike = path.substr(0, name);
    for (const char c : path.substr(name)) {
      const bool is_digit = c >= '0' && c <= '9';
      if (!is_digit || !alike.ends_with('#')) alike += is_digit ? '#' : c;
    }
    return alike;
  }

 private:
  static std::string_view without_separators(std::string_view before) {
    return before.substr(0, before.find_last_not_of(kSeparators) + 1);
  }

  /// Whether a name ends as that of the number in a part of the job does: "local_", "node-", "group".
  static bool is_of_a_part(std::string_view before) {
    const std::string_view name = without_separators(before);
    return name.ends_with("local") || name.ends_with("node") || name.ends_with("group");
  }

  /// Returns the number of a file's name that is its rank: behind the last "rank" that is no local_rank or
  /// node_rank, as in "rank3_pid4000", or else its last one; "" without one.
  static std::string number_of(const std::string& path) {
    constexpr const char* kDigits = "0123456789";
    const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
    std::string_view of_rank, last;
    for (std::size_t first = name.find_first_of(kDigits); first != std::string_view::npos;) {
      const std::size_t end = std::min(name.find_first_not_of(kDigits, first), name.size());
      std::string_view before = without_separators(name.substr(0, first));
      last = name.substr(first, end - first);
      if (before.ends_with("rank")) {
        before.remove_suffix(std::string_view("rank").size());
        (is_of_a_part(before) ? last : of_rank) = is_of_a_part(before) ? "" : last;
      }
      first = name.find_first_of(kDigits, end);
    }
    return std::string(of_rank.empty() ? last : of_rank);
  }

  std::string matched(const std::string& path) const {
    std::smatch match;
    if (path.size() > 4096 || !std::regex_search(path, match, expression_)) return "";
    return match.size() > 1 ? match[1].str() : match[0].str();
  }

  bool by_name_;
  std::regex expression_;
};

/// Whether two dumps of one rank have the same groups and calls, as those of a pickle and of its JSON form.
bool are_alike(const Recording& a, const Recording& b) {
  const auto are_one_group = [](const RecordedGroup& x, const RecordedGroup& y) {
    const bool have_ranks = x.ranks != nullptr && y.ranks != nullptr;
    return x.name == y.name && x.description == y.description &&
           (have_ranks ? *x.ranks == *y.ranks : x.ranks == y.ranks);
  };
  const auto are_one_call = [&](const RecordedCall& x, const RecordedCall& y) {
    return x.record_id == y.record_id && x.group == y.group && x.sequence == y.sequence &&
           x.p2p_sequence == y.p2p_sequence && x.state == y.state && a.operation(x) == b.operation(y);
  };
  return std::ranges::equal(a.groups, b.groups, are_one_group) &&
         std::ranges::equal(a.calls, b.calls, are_one_call);
}

/// Takes the dumps, and the blank dumps, from what was read. Refuses named files that are neither, and notes
/// those of folders.
template <typename IsAlike>
std::vector<Recording> taken(std::vector<Candidate>& files, const IsAlike& is_alike, Recordings& recordings) {
  std::vector<Recording> found;
  sim::Refusals refusals;
  std::int64_t left_out = 0;
  for (Candidate& file : files) {
    if (file.recording) {
      found.push_back(*std::move(file.recording));
    } else if (file.blank && (file.is_named || is_alike(file.path))) {
      recordings.blank.push_back(*std::move(file.blank));
    } else if (!file.is_named) {
      left_out += file.problem != nullptr ? 0 : 1;
    } else {
      const bool is_packed = !file.packing.empty();
      refusals.keep([&] {
        refuse_by("dump_form/recording", sim::printable_text(file.path),
                  is_packed ? words_of_packing(file.packing) : "no 'entries', 'pg_config' or 'pg_status'",
                  is_packed ? "the files that are in it" : "the file that the flight recorder wrote");
      });
    }
  }
  refusals.throw_if_any();
  if (const Candidate* const packed = first_packed(files))
    recordings.notes.push_back(
        fmt::format("{} is {}.", sim::printable_text(packed->path), words_of_packing(packed->packing)));
  if (left_out > 0)
    recordings.notes.push_back(fmt::format("{} in the folders {} no dump, and {} left out.",
                                           counted(left_out, "file"), is_or_are(left_out, "is", "are"),
                                           is_or_are(left_out, "was", "were")));
  return found;
}

/// Refuses a job of which no file is a dump.
[[noreturn]] void refuse_no_dump(const RecordingSource& source, const FoundPaths& paths, std::size_t blank) {
  const Candidate* const packed = first_packed(paths.files);
  std::string numbers = "a folder without files";
  std::string hint = "the folder into which the job wrote its dumps (TORCH_FR_DUMP_TEMP_FILE)";
  if (!paths.files.empty()) {
    const std::string why = packed != nullptr ? fmt::format(" (one is {})", words_of_packing(packed->packing))
                            : blank > 0 ? fmt::format(" ({} empty, or end before their first field)", blank)
                                        : "";
    numbers = fmt::format("{} read, and none is a dump{}", counted(std::ssize(paths.files), "file"), why);
  } else if (paths.folders > 0) {
    numbers += fmt::format(", in which {} {}", is_or_are(paths.folders, "is", "are"),
                           counted(paths.folders, "folder"));
    const std::string path = sim::printable_text(source.paths.front());
    hint = fmt::format("the folders within it, which are not read unless they are given: {}{}*", path,
                       path.ends_with('/') ? "" : "/");
  }
  if (packed != nullptr) hint = "the files that are in it (gunzip, unzip or tar unpacks them)";
  refuse_by("dump_empty/recording", sim::printable_text(source.paths.empty() ? "DUMP" : source.paths.front()),
            numbers, hint);
}

/// Gives recordings their ranks, and keeps one for each rank.
void take_ranks(std::vector<Recording> found, const RankFinder& finder, Recordings& recordings) {
  sim::Refusals refusals;
  std::size_t refused = 0;
  for (Recording& recording : found) {
    if (refused > kMostRefusals) break;
    refused += refusals.keep([&] { recording.rank = finder.rank_of(recording.path); }) ? 0U : 1U;
  }
  refusals.throw_if_any();
  std::ranges::stable_sort(found, {}, &Recording::rank);
  std::vector<Recording>& ranks = recordings.ranks;
  for (Recording& recording : found) {
    if (ranks.empty() || ranks.back().rank != recording.rank) {
      ranks.push_back(std::move(recording));
      continue;
    }
    const std::string known = sim::printable_text(ranks.back().path);
    if (are_alike(ranks.back(), recording)) {
      recordings.notes.push_back(fmt::format("{} has the calls of {}, and was left out.",
                                             sim::printable_text(recording.path), known));
    } else if (refused++ < kMostRefusals) {
      refusals.keep(
          [&] { refuse_by("dump_twice", sim::printable_text(recording.path), recording.rank, known); });
    }
  }
  refusals.throw_if_any();
}

/// Gives blank dumps their ranks, and keeps those of ranks without another dump.
void take_blank_ranks(const RankFinder& finder, Recordings& recordings) {
  std::vector<BlankDump>& blank = recordings.blank;
  for (BlankDump& one : blank) one.rank = finder.rank_of(one.path);
  std::ranges::stable_sort(blank, {}, &BlankDump::rank);
  std::erase_if(blank, [&](const BlankDump& one) {
    return std::ranges::binary_search(recordings.ranks, one.rank, {}, &Recording::rank);
  });
  const auto copies = std::ranges::unique(blank, {}, &BlankDump::rank);
  blank.erase(copies.begin(), copies.end());
  for (const BlankDump& one : blank)
    recordings.notes.push_back(fmt::format("The dump of rank {} ({}) counts as none, because it {}. {}",
                                           one.rank, sim::printable_text(one.path), words_of(one),
                                           one.problem.empty()
                                               ? "Its process may have ended while it wrote."
                                               : "It may have been damaged when it was copied."));
}

}  // namespace

std::string words_of(const BlankDump& blank) {
  if (!blank.problem.empty()) return fmt::format("is damaged ({})", blank.problem);
  if (blank.bytes == 0) return "is empty";
  return fmt::format("ends after {}, before its first field",
                     counted(static_cast<std::int64_t>(blank.bytes), "byte"));
}

std::optional<Recording> recording_of(std::string_view bytes, const std::string& file, SharedRanks& lists,
                                      ValueTree& tree) {
  const std::optional<ParsedFile> parsed = parsed_file(bytes, file, tree);
  if (!parsed || !has_fields_of_dump(parsed->value, tree)) return std::nullopt;
  return recorded(*parsed, tree, lists, file);
}

Recordings read_recordings(const RecordingSource& source, const ReadingProgress& progress) {
  const RankFinder finder(source.rank_from);
  FoundPaths paths = found_paths(source);
  read_files(paths.files, source.threads, progress);
  Recordings recordings{.ranks = {}, .blank = {}, .notes = notes_on(paths)};
  std::set<std::string> names;  // of dumps, without their numbers
  for (const Candidate& file : paths.files)
    if (file.recording) names.insert(finder.name_without_rank(file.path));
  const auto is_alike = [&](const std::string& path) {
    return names.contains(finder.name_without_rank(path));
  };
  settle_problems(paths.files, !names.empty(), is_alike, recordings.notes);
  std::vector<Recording> found = taken(paths.files, is_alike, recordings);
  if (found.empty()) refuse_no_dump(source, paths, recordings.blank.size());
  take_ranks(std::move(found), finder, recordings);
  take_blank_ranks(finder, recordings);
  for (const Recording& recording : recordings.ranks) {
    if (recording.is_truncated)
      recordings.notes.push_back(
          fmt::format("The dump of rank {} ends in the middle: it was read as far as it goes, with {}.",
                      recording.rank, counted(std::ssize(recording.calls), "call")));
  }
  return recordings;
}

}  // namespace verify
