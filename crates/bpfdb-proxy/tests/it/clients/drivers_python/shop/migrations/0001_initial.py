import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    operations = [
        migrations.CreateModel(
            "Account",
            [
                ("id", models.BigAutoField(primary_key=True)),
                ("owner", models.CharField(max_length=40, unique=True)),
                ("balance", models.DecimalField(max_digits=12, decimal_places=2)),
            ],
        ),
        migrations.CreateModel(
            "Transfer",
            [
                ("id", models.BigAutoField(primary_key=True)),
                (
                    "source",
                    models.ForeignKey("shop.Account", django.db.models.deletion.CASCADE, related_name="sent"),
                ),
                (
                    "target",
                    models.ForeignKey("shop.Account", django.db.models.deletion.CASCADE, related_name="received"),
                ),
                ("amount", models.DecimalField(max_digits=12, decimal_places=2)),
            ],
        ),
    ]
