"""What MLflow's own client finds at a tracking URI: python -m tests.probes.mlflow_runs URI, JSON."""

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
                    name: sorted([one.step, one.value, one.timestamp] for one in points)
                    for name, points in history.items()
                },
                "artifacts": sorted(one.path for one in client.list_artifacts(run.info.run_id)),
            }
        )
print(json.dumps(found))
