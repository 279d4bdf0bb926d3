"""What a run waits for, and why: step by step, with what would help.

`explain` is the entry: it reads the store, and asks the broker about topics, groups and dead letters.
"""

from afl_stream.visibility.waiting.explaining import UnknownRun as UnknownRun
from afl_stream.visibility.waiting.explaining import explain as explain
from afl_stream.visibility.waiting.report import Cause as Cause
from afl_stream.visibility.waiting.report import CauseCode as CauseCode
from afl_stream.visibility.waiting.report import Wait as Wait
from afl_stream.visibility.waiting.report import WaitReport as WaitReport

#: The modules that other packages import.
PUBLIC_MODULES = ("described", "evaluators", "explaining", "report", "result_form", "step_places")
