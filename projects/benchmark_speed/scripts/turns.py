"""How the measuring process and its workers talk: a line of JSON each way. Needs nothing else.

A request has `batch_size`, and the worker reads all sentences once in such batches; its answer has
the seconds, and the most memory that the process has had. A request with `vectors` names a file to
write vectors of the first batch to, as .npy.
"""

import json
import resource
import sys
import time


def batch_by_batch(read_batch):
    """Reads that many sentences at a time, one batch after the other."""

    def read(sentences, batch_size):
        for i in range(0, len(sentences), batch_size):
            read_batch(sentences[i : i + batch_size])

    return read


def serve(read, vectors=None):
    """Answer requests until there are no more.

    read(sentences, batch_size): what is timed, over lists of words
    vectors(sentences): the vectors of a batch, one row a word
    """
    replies = sys.stdout
    sys.stdout = sys.stderr  # whatever libraries print is no reply
    with open(sys.argv[1], encoding="utf8") as file:
        sentences = json.load(file)
    print(json.dumps({"ready": True}), file=replies, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        n = request["batch_size"]
        start = time.perf_counter()
        if "vectors" in request:
            import numpy

            numpy.save(request["vectors"], vectors(sentences[:n]))
        else:
            read(sentences, n)
        seconds = time.perf_counter() - start
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(json.dumps({"seconds": seconds, "memory_mb": memory}), file=replies, flush=True)
