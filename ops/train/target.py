"""target.py - a file that a person names to be written: the rule of wiremill's verbs (schema/base/wm_target.h), in Python.

It is never an input of the same program, and what lies there is replaced only if it is empty or of the kind that the
program writes, or by --force. It is written beside its name and renamed.
"""
import os


class Refused(Exception):
    pass


class Target:
    """kind: for people; is_own: whether a file that begins with these bytes is of that kind."""

    def __init__(self, path, kind, is_own, inputs=(), force=False):
        for name in inputs:
            if os.path.exists(path) and os.path.exists(name) and os.path.samefile(path, name):
                raise Refused(f"{path} is the same file as the input {name}: give another file")
        if os.path.islink(path) and not os.path.exists(path):
            raise Refused(f"{path} is a symbolic link to nothing; remove it, or give another name")
        if os.path.exists(path) and not os.path.isfile(path):
            raise Refused(f"{path} is no regular file; give a file")
        self.path = os.path.realpath(path)
        if not os.access(os.path.dirname(self.path), os.W_OK | os.X_OK):
            raise Refused(f"{path}: its folder is not there, or cannot be written in; give another name")
        if os.path.exists(path) and not force:
            with open(path, "rb") as f:
                begin = f.read(65536)
            if begin and not is_own(begin):
                raise Refused(f"{path} is no {kind}; give another name, or --force to replace it")

    def write(self, data):
        temporary = f"{self.path}.{os.getpid()}.tmp"
        try:
            with open(temporary, "wb") as f:
                f.write(data)
                f.flush()
                os.fsync(f.fileno())
            os.replace(temporary, self.path)
        except BaseException:
            if os.path.exists(temporary):
                os.remove(temporary)
            raise
        folder = os.open(os.path.dirname(self.path), os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
