"Rows in CSV files and interrupts, for commands that keep what they have measured. The standard library only, see `bench_solvers.py`."
import csv
import os


def read_rows(path):
    "The rows of a CSV file as dicts; none if there is no such file."
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_rows(path, columns, rows):
    "Write rows (dicts) to a CSV file in one step: a reader, or an interrupt, sees the old file or the new one."
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with new.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


STOP = []  # signals received


def stop(number, frame):
    "Like Ctrl-C, and remembered: `kms_distance` answers an interrupt with its best bounds so far, and the work would go on."
    STOP.append(number)
    raise KeyboardInterrupt
