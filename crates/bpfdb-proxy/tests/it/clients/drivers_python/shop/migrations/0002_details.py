"""Columns, a constraint and rows, in one transaction."""

import django.utils.timezone
from django.db import migrations, models


def open_accounts(apps, editor):
    account = apps.get_model("shop", "Account")
    rows = [account(owner=f"owner {number}", balance=100, details={"number": number}) for number in range(8)]
    account.objects.using(editor.connection.alias).bulk_create(rows)


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_initial")]
    operations = [
        migrations.AddField("Account", "details", models.JSONField(default=dict)),
        migrations.AddField(
            "Transfer",
            "made",
            models.DateTimeField(auto_now_add=True, default=django.utils.timezone.now),
            preserve_default=False,
        ),
        migrations.AddConstraint(
            "Account",
            models.CheckConstraint(condition=models.Q(balance__gte=0), name="no_debts"),
        ),
        migrations.RunPython(open_accounts, migrations.RunPython.noop),
    ]
