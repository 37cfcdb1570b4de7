"""An index that is made outside a transaction."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("shop", "0002_details")]
    operations = [
        AddIndexConcurrently("Transfer", models.Index(fields=["made"], name="made_when")),
    ]
