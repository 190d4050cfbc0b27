"""
A directory of checkpoints as it lies on disk. No torch: the command line reads it too.

    <directory>/
        owner.json                which job writes here, or wrote last
        owner.lock                held by that job's rank 0
        step-000000499/           the state after step 499; whole, or it would not have this name
            manifest.json         every file with its size and digest; written last
            index.json            which piece of which tensor lies where
            rank-00000.tensors    raw bytes of the pieces that rank 0 wrote
            rank-00000.values     all else of rank 0: numbers, texts, random number generators
        quarantine/               what did not verify or was replaced, and why
        .saving-…                 a save or a copy that is not finished, or never will be
        .removing-…               an old checkpoint that is being deleted
        .probe-…                  a rank's question who sees this directory

Where each node has a directory of its own, each holds what its ranks wrote. Nothing in it is ever unpickled.
"""
