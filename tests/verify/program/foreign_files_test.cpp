// Proves what the program does with files of unexpected kinds and names: where a scenario should be, where a
// report should go, and whose name steers a terminal.

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/contains.h"
#include "tests/support/run.h"
#include "verify/output/output_file.h"
#include "verify/output/phrases.h"

namespace {

using test::contains;

namespace fs = std::filesystem;

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class ForeignFiles : public ::testing::Test {
 protected:
  ForeignFiles() : folder_(testing::TempDir() + "shardproof-foreign-" + std::to_string(getpid())) {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  ~ForeignFiles() override { fs::remove_all(folder_); }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

 private:
  fs::path folder_;
};

// ---- Where a scenario should be

TEST_F(ForeignFiles, WhatIsNoFileIsSaidToBeWhatItIs) {
  fs::create_directory(file("folder.ini"));
  ASSERT_EQ(::mkfifo(file("pipe.ini").c_str(), 0600), 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  file("socket.ini").copy(address.sun_path, sizeof address.sun_path - 1);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  fs::create_symlink("/dev/zero", file("device.ini"));
  fs::create_symlink("loop.ini", file("loop.ini"));
  fs::create_symlink("nowhere", file("dangling.ini"));
  const std::pair<const char*, const char*> words[] = {
      {"folder.ini", "is a folder, not a file"},         {"pipe.ini", "is a named pipe, not a file"},
      {"socket.ini", "is a socket, not a file"},         {"device.ini", "is a device, not a file"},
      {"loop.ini", "Too many levels of symbolic links"}, {"dangling.ini", "there is no such file"},
      {"nothing.ini", "there is no such file"}};
  for (const auto& [name, said] : words) {
    const auto refused = test::run(std::vector<std::string>{"groups", file(name)});
    EXPECT_EQ(refused.exit_code, 2) << name;
    EXPECT_TRUE(contains(refused.err, "[scenario_missing]") && contains(refused.err, said))
        << name << refused.err;
    const auto replayed = test::run(std::vector<std::string>{"replay", file(name)});
    EXPECT_EQ(replayed.exit_code, 2) << name;
    EXPECT_TRUE(contains(replayed.out + replayed.err, said)) << replayed.out << replayed.err;
  }
  ::close(socket);
}

// ---- Names and words that steer a terminal

TEST_F(ForeignFiles, NoNameOrWordSteersATerminal) {
  const std::string name = file("a\x1b[2Jb\nverified.ini");
  std::ofstream(name) << "# Source: test\nworld-size = 2\ntensor-model-parallel-size = 3\n";
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"replay", name},
           {"groups", name + "x.ini"},
           {"replay", name + "x.ini"},
           {"groups", "--world-size", "2", "--order", "\x1b[31mtp\nverified"},
           {"check", "--case", "\x1b]0;title\x07"},
           {"\x1b[1mreplay\n"},
           {"replay", "--world-size", "2", "--report", "no/folder\x1b[2J\nverified/x.html"}}) {
    const auto result = test::run(words);
    const std::string all = result.out + result.err;
    EXPECT_EQ(result.exit_code, 2) << all;
    EXPECT_TRUE(contains(all, "\\x1b")) << all;
    EXPECT_FALSE(contains(all, "\x1b")) << all;
    EXPECT_FALSE(contains(all, "\nverified")) << all;
  }
}

TEST_F(ForeignFiles, AWordWithControlCharactersIsQuotedInOneLine) {
  const std::string word = "a'\\\n\x1b\xc3\xa9\x9b";
  const std::string quoted = verify::quoted_for_shell(word);
  EXPECT_EQ(quoted, "$'a\\'\\\\\\012\\033\\303\\251\\233'");
  const test::TemporaryFile script("script", "printf %s " + quoted);
  EXPECT_EQ(test::run_process("bash " + script.path()).out, word);
  EXPECT_EQ(verify::quoted_for_shell("it's \xc3\xa9"), "'it'\\''s \xc3\xa9'");
}

// ---- Where a report should go

TEST_F(ForeignFiles, AReportWhereTheTableGoesIsRefused) {
  const std::string out = file("out.txt");
  for (const std::string& path : {std::string("/dev/stdout"), std::string("/proc/self/fd/1"), out}) {
    const auto result =
        test::run_process("build/shardproof replay --world-size 2 --report " + path + " > " + out);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_TRUE(contains(result.out, "is standard output, where the result goes")) << path << result.out;
  }
  const std::string err = file("err.txt");
  const auto result =
      test::run_process("build/shardproof replay --world-size 2 --junit /dev/stderr 2> " + err);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(contents(err), "is standard error, where messages go")) << contents(err);
}

TEST_F(ForeignFiles, NothingIsWrittenThroughALinkAtTheTemporaryName) {
  std::ofstream(file("victim")) << "keep";
  const std::string process = std::to_string(getpid());
  for (const char* end : {"", "-0", "-1"})
    fs::create_symlink("victim", file(".report.part-" + process + end));
  const verify::OutputFile page("report", file("page.html"));
  page.write("page");
  EXPECT_EQ(contents(file("victim")), "keep");
  EXPECT_EQ(contents(file("page.html")), "page");
  EXPECT_EQ(files(), 5U);  // the temporary file that was made anew is gone
}

}  // namespace
