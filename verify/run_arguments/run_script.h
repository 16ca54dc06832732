#pragma once

/// Reads the arguments of a run from a launch script, or from the text of a command line:
///
///   GPT_ARGS=(--num-layers 96 --seq-length ${SEQ:-2048})
///   torchrun --nnodes 16 --nproc_per_node 8 pretrain_gpt.py ${GPT_ARGS[@]}
///
/// The command is the last one that names a Python file or module and gives it arguments that say something
/// about the training, or else the last one that gives it any. Of several, one whose file is named for
/// training counts (pretrain_gpt.py). Another program that gets Megatron's arguments counts where no Python
/// does: it may change them, as a note says. What converts, serves or installs is no training. Text that is
/// nothing but arguments, and files that only assign arrays of arguments, are read as well. Commands in
/// here-documents, in `bash -c "..."`, in `ssh`, `sbatch --wrap` and `eval` are found.
///
/// Nothing is executed. Assignments, arrays, defaults, whole-number arithmetic, `if`, `case`, && and ||,
/// tests, loops, functions, subshells and the output of `echo` are followed, as bash follows them, where it
/// is known what they do. Where a branch may run, both ways are followed, and what differs is not known from
/// there on: it is kept as Unresolved, with its line and the variable that would tell it. So is what only a
/// shell could tell: the output of other commands, regular expressions, braces, `read`. A variable without a
/// value in the file is not set if the file gives it a default (${TP:-8}, [ -z $TP ] && TP=8), and not known
/// otherwise. If the script ends where it is empty, the script needs it, and it is Unresolved. A variable in
/// `set` has that value throughout; --set NAME= leaves it to the defaults.
///
/// A script that is read from a path may source and start other files beside it (script_files.h): they are
/// read in their place, with the line that names them. A file that is not there is Unresolved.
///
/// The world is that of torchrun, deepspeed, accelerate, srun, sbatch, mpirun or #SBATCH: launch_world.h.
///
/// Errors  script_syntax, bare_bracket (shell_words.h); run_without_arguments; arguments_apart: arguments
///         that begin a command of their own, since the line before does not go on; those of
///         launch_choice.h; run_file_size: more than a million commands.

#include <string>
#include <string_view>

#include "verify/run_arguments/run_arguments.h"

namespace verify {

/// `path` is that of the script; "" for a text that is no file.
RunArguments read_run_script(std::string_view text, const RunVariables& set, const std::string& path = "");

}  // namespace verify
