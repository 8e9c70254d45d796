"""Prints the runs at an MLflow tracking URI as JSON, as MLflow's client reads them.

python -m tests.probes.mlflow_runs URI
"""

import json
import sys

from mlflow.tracking import MlflowClient

client, found = MlflowClient(tracking_uri=sys.argv[1]), []
for experiment in client.search_experiments():
    for run in client.search_runs([experiment.experiment_id]):
        history = {
            name: client.get_metric_history(run.info.run_id, name) for name in run.data.metrics
        }
        found.append(
            {
                "experiment": experiment.name,
                "name": run.info.run_name,
                "status": run.info.status,
                "times": [run.info.start_time, run.info.end_time],
                "params": run.data.params,
                "tags": run.data.tags,
                "metrics": {
                    name: sorted([point.step, point.value, point.timestamp] for point in points)
                    for name, points in history.items()
                },
                "artifacts": sorted(file.path for file in client.list_artifacts(run.info.run_id)),
            }
        )
print(json.dumps(found))
